"""Pages of other origins: which of our replies a browser lets them read."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from samtranslator.yaml_helper import yaml_parse
from starlette.types import ASGIApp

from local.callers import LocalCallersOnly
from local.front_door import _for_local_pages
from stepagent.api.cors import ALLOWED_HEADERS, PREFLIGHT_S, allowed_origins
from stepagent.settings import settings
from tests.functions import ROOT, load

PAGE = "https://app.example"
ORIGIN = "access-control-allow-origin"
API: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]["Api"]["Properties"]


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the origins that the deployment allows."""

    def set_to(origins: str) -> None:
        monkeypatch.setenv("CORS_ORIGINS", origins)
        settings.cache_clear()

    yield set_to
    settings.cache_clear()


def stream_function() -> ASGIApp:
    """The streaming function's application, as the Web Adapter calls it."""
    served: ASGIApp = load("stream", "cross_origin").with_cors(load("stream", "app").app)
    return served


def ask(app: ASGIApp, method: str, path: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, content=b"{", headers=named)

    return asyncio.run(send())


@pytest.mark.parametrize(
    ("text", "origins"), [("", []), (PAGE, [PAGE]), (f"{PAGE}, http://localhost:3000", [PAGE, "http://localhost:3000"])]
)
def test_origins_are_those_that_the_deployment_names(
    allow: Callable[[str], None], text: str, origins: list[str]
) -> None:
    allow(text)
    assert allowed_origins() == origins


@pytest.mark.parametrize(
    ("path", "status"), [("/chat/completions", 400), ("/nowhere", 404), ("/runs/run_a_1/events", 500)]
)
def test_page_reads_errors_of_the_streaming_function_when_its_origin_is_allowed(
    allow: Callable[[str], None], path: str, status: int
) -> None:
    allow(PAGE)
    reply = ask(stream_function(), "GET" if "events" in path else "POST", path, origin=PAGE)
    assert (reply.status_code, reply.headers[ORIGIN]) == (status, PAGE)
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(("allowed", "origin"), [("", PAGE), (PAGE, "https://evil.example"), (PAGE, "null")])
def test_page_reads_nothing_when_its_origin_is_not_allowed(
    allow: Callable[[str], None], allowed: str, origin: str
) -> None:
    allow(allowed)
    assert ORIGIN not in ask(stream_function(), "POST", "/chat/completions", origin=origin).headers


def test_page_sees_the_runs_id_when_its_origin_is_allowed(allow: Callable[[str], None]) -> None:
    allow(PAGE)
    exposed = ask(stream_function(), "POST", "/chat/completions", origin=PAGE).headers["access-control-expose-headers"]
    assert "X-StepAgent-Run-Id" in exposed


def test_replies_never_allow_cookies(allow: Callable[[str], None]) -> None:
    allow("*")
    reply = ask(stream_function(), "POST", "/chat/completions", origin=PAGE)
    assert "access-control-allow-credentials" not in reply.headers


def front_door() -> ASGIApp:
    return LocalCallersOnly(_for_local_pages(load("stream", "app").app))


def test_front_door_answers_preflights_of_pages_of_this_machine() -> None:
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "authorization"}
    reply = ask(front_door(), "OPTIONS", "/chat/completions", origin="http://localhost:3000", **asked)
    assert (reply.status_code, reply.headers[ORIGIN]) == (200, "http://localhost:3000")


@pytest.mark.parametrize("app", ["stream", "front door"])
def test_page_may_use_openais_own_client(allow: Callable[[str], None], app: str) -> None:
    allow("http://localhost:3000")
    sent = "authorization, content-type, x-stainless-arch, x-stainless-retry-count, openai-organization"
    asked = {"access_control_request_method": "POST", "access_control_request_headers": sent}
    served = stream_function() if app == "stream" else front_door()
    reply = ask(served, "OPTIONS", "/chat/completions", origin="http://localhost:3000", **asked)
    assert (reply.status_code, reply.headers["access-control-allow-headers"]) == (200, sent)


def test_preflights_name_the_key_and_any_header_that_clients_add() -> None:
    assert {"Authorization", "*"} <= set(ALLOWED_HEADERS)


def test_front_door_turns_pages_of_other_origins_away() -> None:
    assert ask(front_door(), "POST", "/chat/completions", origin=PAGE).status_code == 403


def test_pages_of_other_origins_are_let_through_only_below_the_open_path() -> None:
    guarded = LocalCallersOnly(load("stream", "app").app, open_below="/open/")
    assert [ask(guarded, "POST", path, origin=PAGE).status_code for path in ("/open/x", "/closed/x")] == [404, 403]


def test_open_path_is_closed_to_names_that_were_made_to_point_here() -> None:
    guarded = LocalCallersOnly(load("stream", "app").app, open_below="/open/")
    assert ask(guarded, "POST", "/open/x", host="evil.example").status_code == 403


def test_preflights_allow_what_the_functions_allow() -> None:
    cors = API["Cors"]
    assert cors["AllowHeaders"] == f"'{','.join(ALLOWED_HEADERS)}'"
    assert (cors["MaxAge"], API["Auth"]["AddDefaultAuthorizerToCorsPreflight"]) == (f"'{PREFLIGHT_S}'", False)


def test_gateways_own_errors_can_be_read_only_where_origins_are_allowed() -> None:
    headers = [response["ResponseParameters"]["Headers"] for response in API["GatewayResponses"].values()]
    allowed = {"Fn::If": ["AllowsOrigins", "'*'", {"Ref": "AWS::NoValue"}]}
    assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= set(API["GatewayResponses"])
    assert all(header == {"Access-Control-Allow-Origin": allowed} for header in headers)
