"""Calls of tools of kind `http`, from arguments to a result, against real servers on this machine."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities import parameters

from stepagent.clock import now
from stepagent.errors import ToolError
from stepagent.targets import HttpTarget
from stepagent.tools.http_call import build_request, call_http
from stepagent.web.network import INTERNET, Network
from stepagent.web.urls import Url
from tests.functions import catalog_entry, load, untitled
from tests.web_server import Answer, LocalNetwork, WebServer, answered, redirected, serving, serving_securely

SECRET = "s3cr3t/t0ken"
HOST = "http://api.example.com"
BEARER = {"Authorization": {"secret": "stepagent/tools/example", "prefix": "Bearer "}}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Secrets Manager holds in these tests."""
    held: dict[str, Any] = {"stepagent/tools/example": f"{SECRET}\n"}

    def get_secret(name: str, max_age: int) -> Any:
        if name not in held:
            raise parameters.GetParameterError("no such secret, says AWS at length")
        return held[name]

    monkeypatch.setattr(parameters, "get_secret", get_secret)
    return held


def target(**row: Any) -> HttpTarget:
    return HttpTarget.model_validate({"url": f"{HOST}/items/{{id}}", "allow_http": True, **row})


def call(local: Network, arguments: dict[str, Any] | None = None, seconds: float = 5, **row: Any) -> Any:
    given = {"id": "7"} if arguments is None else arguments
    return call_http(target(**row), given, now() + timedelta(seconds=seconds), local)


def refusal(local: Network, arguments: dict[str, Any] | None = None, **row: Any) -> str:
    with pytest.raises(ToolError) as error:
        call(local, arguments, **row)
    return error.value.message


JSON_ANSWER = answered(b'{"id": 7, "tags": []}', content_type="application/json")


# ---- from arguments to a request


def test_arguments_go_where_they_belong_when_some_are_placed() -> None:
    row = target(
        method="POST",
        url=f"{HOST}/items/{{id}}?lang={{lang}}&v=2",
        arguments={"dry": "query", "trace": {"place": "header", "name": "X-Trace"}},
        headers={"Accept": "application/json"},
    )
    arguments = {"id": "a b", "lang": "de", "dry": True, "trace": "t1", "title": "Grün", "count": 0, "note": None}
    request = build_request(row, arguments, {})
    assert str(request.url) == f"{HOST}/items/a%20b?lang=de&v=2&dry=true"
    assert request.headers == {"content-type": "application/json", "accept": "application/json", "x-trace": "t1"}
    assert json.loads(request.body) == {"title": "Grün", "count": 0, "note": None}


def test_query_repeats_a_parameter_when_the_argument_is_a_list() -> None:
    request = build_request(target(), {"id": 7, "tag": ["a", "b&c"], "q": None, "w": {"x": 1}}, {})
    assert request.url.target == "/items/7?tag=a&tag=b%26c&w=%7B%22x%22%3A%201%7D"


def test_body_is_a_form_when_the_row_says_so() -> None:
    request = build_request(target(method="POST", body="form"), {"id": 7, "a": "x&y=z", "b": [1, 2], "c": None}, {})
    assert (request.body, request.headers["content-type"]) == (
        b"a=x%26y%3Dz&b=1&b=2",
        "application/x-www-form-urlencoded",
    )


def test_body_is_empty_when_no_argument_goes_there() -> None:
    request = build_request(target(method="POST"), {"id": 7}, {})
    assert (request.body, request.headers) == (b"", {})


def test_content_type_is_the_rows_when_it_names_one() -> None:
    row = target(method="PATCH", headers={"Content-Type": "application/merge-patch+json"})
    assert build_request(row, {"id": 7, "a": 1}, {}).headers == {"content-type": "application/merge-patch+json"}


def test_secret_wins_when_an_argument_has_its_name() -> None:
    row = target(secrets={"key": {"secret": "stepagent/tools/example", "place": "query"}})
    assert build_request(row, {"id": 7, "key": "mine"}, {"key": SECRET}).url.target == "/items/7?key=s3cr3t%2Ft0ken"


@pytest.mark.parametrize("value", ["a\r\nEvil: b", "a\nb", "ü", "a\x00", " a"])
def test_header_is_refused_when_an_argument_would_break_out_of_it(value: str) -> None:
    with pytest.raises(ToolError, match="one line of printable ASCII"):
        build_request(target(arguments={"trace": "header"}), {"id": 7, "trace": value}, {})


@pytest.mark.parametrize("value", ["..", "%2e%2e", "", "a/../../admin", None])
def test_path_is_refused_when_an_argument_would_lead_out_of_it(value: Any) -> None:
    with pytest.raises(ToolError, match="part of the path"):
        build_request(target(), {"id": value}, {})


def test_path_is_refused_when_its_argument_is_missing() -> None:
    with pytest.raises(ToolError, match="id is a part of the path"):
        build_request(target(), {}, {})


# ---- from the answer to a result


def test_result_is_the_value_when_the_answer_is_json() -> None:
    with serving(JSON_ANSWER) as (server, local):
        assert call(local) == {"id": 7, "tags": []}
    assert server.requests[0].line == "GET /items/7 HTTP/1.1"


def test_connection_is_safe_when_the_row_names_https() -> None:
    with serving_securely(JSON_ANSWER) as (_, local):
        assert call(local, url="https://api.example.com/items/{id}", allow_http=False) == {"id": 7, "tags": []}


def test_secret_reaches_the_server_when_the_row_names_it() -> None:
    with serving(JSON_ANSWER) as (server, local):
        call(local, secrets=BEARER)
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "404 Not Found", "503 Service Unavailable"])
def test_error_tells_status_and_words_when_the_server_refuses(status: str) -> None:
    with serving(answered(b'{"error":\n  "no such item"}', status, content_type="application/json")) as (_, local):
        message = refusal(local)
    assert message == f'api.example.com answered with status {status}: {{"error": "no such item"}}'


def test_error_is_short_when_the_servers_words_are_long() -> None:
    with serving(answered(b"x" * 10_000, "500 Oh", content_type="text/html")) as (_, local):
        message = refusal(local)
    assert len(message) < 600
    assert "status 500 Internal Server Error" in message


def test_error_tells_how_long_to_wait_when_the_server_says_so() -> None:
    with serving(answered(b"", "429 Too Many Requests", Retry_After="30")) as (_, local):
        assert refusal(local) == "api.example.com answered with status 429 Too Many Requests; retry after: 30."


@pytest.mark.parametrize("status", ["304 Not Modified", "302 Found", "599 Odd"])
def test_error_tells_the_status_when_it_is_unusual(status: str) -> None:
    with serving(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()) as (_, local):
        assert f"status {status[:3]}" in refusal(local)


def test_error_says_that_effects_are_unknown_when_a_post_got_no_answer() -> None:
    with serving(b"") as (_, local):
        assert "effects of the request are unknown" in refusal(local, method="POST")
        assert "effects" not in refusal(local, method="GET")


def test_error_does_not_speak_of_effects_when_nothing_was_sent() -> None:
    with serving(b"") as (_, local):
        local.resolve = lambda host, port: []  # type: ignore[method-assign]
        assert refusal(local, method="POST") == "There is no host api.example.com."


def test_call_ends_before_its_deadline_when_the_server_is_silent() -> None:
    with serving(lambda connection: connection.recv(1)) as (_, local):
        began = now()
        assert "no complete answer within 0.2 seconds" in refusal(local, seconds=1.25)
    assert now() - began < timedelta(seconds=1.25)


def test_call_goes_nowhere_when_a_redirect_leaves_the_rows_host() -> None:
    with serving(redirected("http://other.example.com/"), JSON_ANSWER) as (server, local):
        message = refusal(local, secrets=BEARER)
    assert message == "http://other.example.com is not allowed. Allowed hosts: http://api.example.com."
    assert len(server.requests) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1"])
def test_call_goes_nowhere_when_the_rows_host_has_a_private_address(address: str) -> None:
    local = LocalNetwork(names={"api.example.com": [[address]]})
    assert "not on the public internet" in refusal(local)
    assert local.connected == []


def test_own_service_is_called_when_the_deployer_allows_it(set_environment: Callable[..., None]) -> None:
    with WebServer(JSON_ANSWER) as server:
        url = f"http://127.0.0.1:{server.port}/items/{{id}}"
        assert "not on the public internet" in refusal(INTERNET, url=url)
        set_environment(HTTP_ALLOW_PRIVATE="true")
        assert call(INTERNET, url=url) == {"id": 7, "tags": []}


def test_text_is_cut_when_it_is_longer_than_the_rows_limit() -> None:
    with serving(answered(b"x" * 5_000, content_type="text/plain")) as (_, local):
        assert call(local, response_limit_bytes=1_000).startswith("x" * 1_000 + "\n… (cut")


# ---- secrets


def echoing(status: str) -> Answer:
    return answered(f'{{"you sent": "Bearer {SECRET}"}}'.encode(), status, content_type="application/json")


def test_secret_is_in_no_result_when_the_server_echoes_it() -> None:
    with serving(echoing("200 OK")) as (_, local):
        assert call(local, secrets=BEARER) == {"you sent": "Bearer [secret]"}


@pytest.mark.parametrize("status", ["401 Unauthorized", "500 Internal Server Error"])
def test_secret_is_in_no_error_when_the_server_echoes_it(status: str) -> None:
    with serving(echoing(status)) as (_, local):
        assert SECRET not in refusal(local, secrets=BEARER)


def test_secret_is_in_no_error_when_a_header_repeats_it() -> None:
    with serving(answered(b"", "429 Too Many Requests", Retry_After=SECRET)) as (_, local):
        assert "retry after: [secret]" in refusal(local, secrets=BEARER)


def test_secret_is_in_no_error_when_a_redirect_names_a_host_after_it(secrets: dict[str, Any]) -> None:
    secrets["stepagent/tools/example"] = "s3cr3t-t0ken"
    in_query = {"key": {"secret": "stepagent/tools/example", "place": "query"}}
    with serving(redirected("http://s3cr3t-t0ken.example/")) as (_, local):
        assert "[secret].example is not allowed" in refusal(local, secrets=in_query)


def test_secret_is_in_no_log_when_everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    in_query = {"key": {"secret": "stepagent/tools/example", "place": "query"}}
    with serving(JSON_ANSWER, b"", echoing("500 Oh")) as (_, local):
        call(local, secrets=in_query | BEARER)
        refusal(local, secrets=in_query | BEARER)
        refusal(local, secrets=in_query | BEARER)
    assert not [part for part in SECRET.split("/") if part in caplog.text]


@pytest.mark.parametrize("held", ["", "  \n", "two\nlines", "grün", "a\x00b"])
def test_call_is_refused_when_its_secret_is_no_line_of_ascii(secrets: dict[str, Any], held: str) -> None:
    secrets["stepagent/tools/example"] = held
    message = refusal(LocalNetwork(), secrets=BEARER)
    assert "stepagent/tools/example is not one line of ASCII" in message


def test_call_is_refused_without_the_providers_words_when_its_secret_cannot_be_read(secrets: dict[str, Any]) -> None:
    secrets.clear()
    message = refusal(LocalNetwork(), secrets=BEARER)
    assert message == ("This tool is not set up: its secret stepagent/tools/example cannot be read. Do without it.")


# ---- the tool http_request

requesting = load("tool_http_request", "requesting")


@contextmanager
def allowed(set_environment: Callable[..., None], *answers: Answer) -> Iterator[tuple[WebServer, LocalNetwork]]:
    set_environment(HTTP_ALLOWED_HOSTS="http://api.example.com, *.example.org")
    with serving(*answers) as found:
        yield found


def requested(local: LocalNetwork, url: str = f"{HOST}/x", **request: Any) -> Any:
    given = {"method": "GET", "headers": {}, "body": ""} | request
    deadline = now() + timedelta(seconds=5)
    return requesting.request(given["method"], url, given["headers"], given["body"], deadline, local)


def test_row_of_http_request_is_what_its_function_takes() -> None:
    handler = load("tool_http_request", "app").handler
    entry = catalog_entry("http_request")
    assert (entry["parameters"], entry["description"]) == (untitled(handler.parameters), handler.description)


def test_result_has_status_headers_and_body_when_the_host_is_allowed(set_environment: Callable[..., None]) -> None:
    answer = answered(b'{"a": 1}', "201 Created", content_type="application/json", ETag="e", Set_Cookie="s=1")
    with allowed(set_environment, answer) as (server, local):
        result = requested(local, method="POST", headers={"If-Match": "x"}, body='{"b": 2}')
    assert result == {
        "status": 201,
        "headers": {"content-type": "application/json", "etag": "e"},
        "body": {"a": 1},
    }
    [sent] = server.requests
    assert (sent.body, sent.headers["content-type"], sent.headers["if-match"]) == (
        b'{"b": 2}',
        "application/json",
        "x",
    )


def test_body_is_plain_text_when_it_is_not_json(set_environment: Callable[..., None]) -> None:
    with allowed(set_environment, answered()) as (server, local):
        requested(local, method="POST", body="hello")
        requested(local, method="POST", body="a,b", headers={"content-type": "text/csv"})
    types = [request.headers["content-type"] for request in server.requests]
    assert types == ["text/plain; charset=utf-8", "text/csv"]


@pytest.mark.parametrize("url", ["https://evil.example/", "https://example.org/", "https://api.example.com/"])
def test_error_lists_the_allowed_hosts_when_the_host_is_another(set_environment: Callable[..., None], url: str) -> None:
    with allowed(set_environment, answered()) as (_, local), pytest.raises(ToolError) as error:
        requested(local, url)
    host = Url.parse(url).host
    assert error.value.message == f"{host} is not allowed. Allowed hosts: http://api.example.com, *.example.org."


def test_error_names_the_parameter_when_no_host_is_allowed(set_environment: Callable[..., None]) -> None:
    set_environment(HTTP_ALLOWED_HOSTS="")
    with pytest.raises(ToolError, match="HttpAllowedHosts"):
        requested(LocalNetwork())


def test_error_names_the_parameter_when_its_list_is_wrong(set_environment: Callable[..., None]) -> None:
    set_environment(HTTP_ALLOWED_HOSTS="*")
    with pytest.raises(Exception, match="HttpAllowedHosts is not right"):
        requested(LocalNetwork())


@pytest.mark.parametrize(
    "name", ["Authorization", "Cookie", "Host", "X-Forwarded-For", "X-Amz-Security-Token", "Evil\r\n"]
)
def test_header_is_refused_when_it_is_none_that_a_model_may_set(
    set_environment: Callable[..., None], name: str
) -> None:
    with allowed(set_environment, answered()) as (server, local), pytest.raises(ToolError, match="These can: accept"):
        requested(local, headers={name: "x"})
    assert server.requests == []


@pytest.mark.parametrize(
    "url", ["ftp://api.example.com/", "api.example.com", "http://u:p@api.example.com/", "http://0x7f.1/"]
)
def test_url_is_refused_when_it_is_no_plain_one(set_environment: Callable[..., None], url: str) -> None:
    with allowed(set_environment, answered()) as (server, local), pytest.raises(ToolError):
        requested(local, url)
    assert server.requests == []
