"""Targets of tools of kind `http`: what a row may say, and that no argument leads a call elsewhere."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stepagent.models import problems
from stepagent.targets import HttpTarget
from stepagent.web.errors import WebRefused
from stepagent.web.template import UrlTemplate

URL = "https://api.example.com/v1/items/{id}"


def target(url: str = URL, **row: Any) -> HttpTarget:
    return HttpTarget.model_validate({"url": url, **row})


def problem_with(url: str = URL, **row: Any) -> str:
    with pytest.raises(ValidationError) as error:
        target(url, **row)
    return problems(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://{host}/v1",
        "https://{tenant}.example.com/v1",
        "https://api.example.com:{port}/v1",
        "{scheme}://api.example.com/v1",
        "https://user:{password}@api.example.com/",
        "https://api.example.com{path}",
        "https://api.example.com/v1#{part}",
        "https://api.example.com/v1?{name}=1",
        "https://api.example.com/{a b}",
        "https://api.example.com/{a.b}",
        "https://api.example.com/{0}",
        "https://api.example.com/{}",
        "https://api.example.com/{a",
        "https://api.example.com/a}",
        "https://api.example.com/{a!r}",
        "https://api.example.com/v1/../{id}",
        "https://api.example.com/v1/%2e%2E/{id}",
        "https://api.example.com/./{id}",
        "https://user@api.example.com/",
        "https://2130706433/",
        "ftp://api.example.com/",
        "api.example.com/v1",
        "/v1/{id}",
        "https://api.example.com/a b",
        "",
    ],
)
def test_row_is_refused_when_its_url_is_no_template_of_one_host(url: str) -> None:
    assert problem_with(url)


def test_row_is_refused_when_its_url_has_no_encryption() -> None:
    assert "allow_http" in problem_with("http://api.example.com/")
    assert target("http://api.example.com/", allow_http=True).template.example().port == 80


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"arguments": {"q": "path"}}, "write {q} into the path"),
        ({"arguments": {"id": "query"}}, "leave id out"),
        ({"arguments": {"q": "body"}}, "no body"),
        ({"method": "HEAD", "arguments": {"q": "body"}}, "no body"),
        ({"arguments": {"q": "cookie"}}, "arguments.q"),
        ({"method": "TRACE"}, "method"),
        ({"method": "get"}, "method"),
        ({"headers": {"X Y": "1"}}, "not the name of a header"),
        ({"headers": {"X": "a\r\nEvil: b"}}, "one line"),
        ({"headers": {"Host": "evil.example"}}, "by the connection"),
        ({"headers": {"Content-Length": "5"}}, "by the connection"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "by the connection"),
        ({"headers": {"Authorization": "Bearer s3cret"}}, "put Authorization under secrets"),
        ({"headers": {"X-Key": "1"}, "arguments": {"x": {"place": "header", "name": "x-key"}}}, "set twice"),
        (
            {"secrets": {"X-Key": {"secret": "stepagent/tools/a"}}, "arguments": {"x-key": "header"}},
            "set twice",
        ),
        ({"arguments": {"x": {"place": "header", "name": "Host"}}}, "by the connection"),
        ({"arguments": {"x\n": "header"}}, "not the name of a header"),
        ({"secrets": {"Authorization": {"secret": "stepagent/model-api-key"}}}, "secrets.Authorization.secret"),
        ({"secrets": {"Authorization": {"secret": "arn:aws:secretsmanager:eu:1:secret:x"}}}, "secret"),
        ({"secrets": {"A": {"secret": "stepagent/tools/a", "prefix": "x\r\n"}}}, "prefix"),
        ({"secrets": {"A": {"secret": "stepagent/tools/a", "prefix": "grün "}}}, "prefix"),
        ({"secrets": {"A": {"secret": "stepagent/tools/a", "value": "s3cret"}}}, "Extra inputs"),
        ({"response_limit_bytes": 10}, "response_limit_bytes"),
        ({"url_": 1}, "Extra inputs"),
    ],
)
def test_row_is_refused_with_what_to_do_when_it_contradicts_itself(row: dict[str, Any], words: str) -> None:
    assert words in problem_with(**row)


def test_message_shows_no_value_when_a_row_is_wrong() -> None:
    assert "s3cret" not in problem_with(headers={"X": "s3cret\r\n"})


@pytest.mark.parametrize(
    ("method", "argument", "place"),
    [
        ("GET", "id", "path"),
        ("GET", "q", "query"),
        ("HEAD", "q", "query"),
        ("DELETE", "q", "query"),
        ("POST", "q", "body"),
        ("PUT", "id", "path"),
        ("PATCH", "q", "body"),
    ],
)
def test_argument_goes_where_the_method_has_it_when_nothing_is_said(method: str, argument: str, place: str) -> None:
    assert target(method=method).placement(argument).place == place


def test_row_is_the_same_when_it_was_stored_and_read() -> None:
    row = target(
        method="POST",
        arguments={"q": "query", "trace": {"place": "header", "name": "X-Trace"}},
        headers={"Accept": "application/json"},
        secrets={"Authorization": {"secret": "stepagent/tools/example", "prefix": "Bearer "}},
    )
    assert HttpTarget.model_validate_json(row.model_dump_json(exclude_unset=True)) == row


@pytest.mark.parametrize(
    ("declared", "always", "words"),
    [
        ({"id", "q"}, {"q"}, "list it as required, or bind it"),
        ({"id"}, {"id"}, "which parameters does not declare"),
        ({"id", "q", "key"}, {"id"}, "rename the argument"),
    ],
)
def test_target_does_not_fit_when_the_tools_arguments_are_others(
    declared: set[str], always: set[str], words: str
) -> None:
    row = target(arguments={"q": "query"}, secrets={"key": {"secret": "stepagent/tools/a", "place": "query"}})
    with pytest.raises(ValueError, match=words):
        row.check_arguments(declared, always)


def test_target_fits_when_its_path_is_always_filled() -> None:
    target(f"{URL}?lang={{lang}}").check_arguments({"id", "lang", "q"}, {"id"})


# ---- the URL of a call


def filled(value: Any, path: str = "/v1/items/{id}") -> str:
    return UrlTemplate.parse(f"https://api.example.com{path}").fill({"id": value}).target


@pytest.mark.parametrize(
    ("value", "segment"),
    [
        ("a", "a"),
        (7, "7"),
        (-1.5, "-1.5"),
        (True, "true"),
        ("a/b", "a%2Fb"),
        ("a?b=c", "a%3Fb%3Dc"),
        ("a#b", "a%23b"),
        ("a%2fb", "a%252fb"),
        ("a;b", "a%3Bb"),
        ("a\nb", "a%0Ab"),
        ("a\r\nHost: evil", "a%0D%0AHost%3A%20evil"),
        ("a\x00", "a%00"),
        ("a\\b", "a%5Cb"),
        ("@evil.example", "%40evil.example"),
        (" ", "%20"),
        ("ü", "%C3%BC"),
        ("\ud800", "%3F"),
        ("...", "..."),
        ("..a", "..a"),
        ("{id}", "%7Bid%7D"),
        ("//evil.example", "%2F%2Fevil.example"),
    ],
)
def test_value_stays_one_segment_of_the_path_whatever_it_holds(value: Any, segment: str) -> None:
    assert filled(value) == f"/v1/items/{segment}"


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "%2e%2e", "%2E.", "%252e%252e", "../admin", "a/../../admin", "..\\admin", "a/..", "%2e%2e%2fadmin"],
)
def test_value_is_refused_when_it_would_lead_out_of_the_path(value: str) -> None:
    with pytest.raises(WebRefused, match="id"):
        filled(value)


@given(st.text())
def test_value_stays_one_segment_when_it_is_any_text(value: str) -> None:
    try:
        path = filled(value, "/v1/{id}/x?q={id}")
    except WebRefused:
        return
    assert re.fullmatch(r"/v1/[!-~]+/x\?q=[!-~]+", path)
    assert (path.count("/"), path.count("?"), path.count("&"), path.count("#")) == (3, 1, 0, 0)


@pytest.mark.parametrize("value", [None, [], ["a"], {}, {"a": 1}])
def test_value_is_refused_when_it_is_no_text_or_number(value: Any) -> None:
    with pytest.raises(WebRefused, match="must be a text or a number"):
        filled(value)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/v1/{a}{b}", {"a": ".", "b": "."}),
        ("/v1/{a}{b}", {"a": "%2e", "b": "."}),
        ("/v1/{a}{b}", {"a": "x/.", "b": "./y"}),
        ("/v1/.{a}", {"a": "."}),
        ("/v1/.{a}", {"a": "./admin"}),
        ("/v1/{a}.json", {"a": "../x"}),
    ],
)
def test_values_are_refused_when_only_together_they_lead_out_of_the_path(path: str, values: dict[str, str]) -> None:
    with pytest.raises(WebRefused, match="must not make"):
        UrlTemplate.parse(f"https://api.example.com{path}").fill(values)


@pytest.mark.parametrize(
    ("path", "values", "filled_path"),
    [
        ("/v1/{a}{b}", {"a": "v", "b": "."}, "/v1/v."),
        ("/v1/{a}.json", {"a": ".."}, "/v1/...json"),
        ("/{a}/x/{b}/", {"a": 1, "b": 2}, "/1/x/2/"),
    ],
)
def test_segment_is_filled_when_it_is_only_in_part_a_placeholder(
    path: str, values: dict[str, Any], filled_path: str
) -> None:
    assert UrlTemplate.parse(f"https://api.example.com{path}").fill(values).target == filled_path


@pytest.mark.parametrize(
    ("values", "target_"),
    [
        ({}, "/s?fixed=1"),
        ({"q": None}, "/s?fixed=1"),
        ({"q": "a&b=c#d"}, "/s?fixed=1&q=a%26b%3Dc%23d"),
        ({"q": ""}, "/s?fixed=1&q="),
        ({"q": False}, "/s?fixed=1&q=false"),
        ({"q": [1, "x"]}, "/s?fixed=1&q=%5B1%2C%20%22x%22%5D"),
    ],
)
def test_value_stays_one_parameter_of_the_query_whatever_it_holds(values: dict[str, Any], target_: str) -> None:
    assert UrlTemplate.parse("https://api.example.com/s?fixed=1&q={q}").fill(values).target == target_


def test_host_is_the_templates_when_arguments_fill_it() -> None:
    url = UrlTemplate.parse("https://API.example.com:8443/{id}").fill({"id": "@evil.example/"})
    assert (url.host, url.port) == ("api.example.com", 8443)


def test_url_is_refused_when_a_value_makes_it_too_long() -> None:
    with pytest.raises(WebRefused, match="longer than 8192"):
        filled("a" * 9_000)
