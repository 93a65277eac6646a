"""The front door: what it forwards, what it answers itself, and whom it names as the caller."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local.front_door import FrontDoor
from tests.functions import load

CONTEXT = "x-amzn-request-context"


async def tell_contexts(request: Request) -> JSONResponse:
    return JSONResponse(request.headers.getlist(CONTEXT))


STREAMING = Starlette(routes=[Route("/runs/{run_id}/events", tell_contexts)])


def asked(method: str, path: str, answer: httpx.Response | None = None, context: str = "") -> httpx.Response:
    """What a client gets where the emulator answers so; without an answer it must not be asked."""

    def emulator(request: httpx.Request) -> httpx.Response:
        assert answer
        return answer

    async def send() -> httpx.Response:
        door = FrontDoor(STREAMING, "http://emulator", "key")
        door._api = httpx.AsyncClient(base_url="http://emulator", transport=httpx.MockTransport(emulator))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(door), base_url="http://localhost") as client:
            return await client.request(method, path, headers={CONTEXT: context} if context else {})

    return asyncio.run(send())


@pytest.mark.parametrize("path", ["/runs", "/runs/run_a_1/events", "/chat/completions"])
def test_head_is_answered_as_api_gateway_does_and_follows_no_run(path: str) -> None:
    assert asked("HEAD", path).status_code == 404


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff"])
def test_error_of_the_emulator_is_passed_on_when_its_body_is_no_object(content: bytes) -> None:
    answer = httpx.Response(418, content=content, headers={"content-type": "application/json"})
    reply = asked("GET", "/runs", answer)
    assert (reply.status_code, reply.content) == (418, content)


def test_error_of_api_gateway_has_the_shape_that_clients_read() -> None:
    error = asked("GET", "/runs", httpx.Response(403, json={"message": "Forbidden"})).json()["error"]
    assert (error["message"], set(error)) == ("Forbidden", {"message", "type", "param", "code"})


def test_caller_is_the_front_doors_when_a_client_names_another() -> None:
    forged = json.dumps({"authorizer": {"principalId": "somebody"}})
    [context] = asked("GET", "/runs/run_a_1/events", context=forged).json()
    assert json.loads(context)["authorizer"]["principalId"] == "local"


def test_nobody_is_the_caller_when_a_request_brings_two_contexts() -> None:
    context: Any = (CONTEXT.encode(), b'{"authorizer": {"principalId": "ann"}}')
    request = Request({"type": "http", "headers": [context, context]})
    with pytest.raises(ValueError, match="too many"):
        load("stream", "incoming").caller_of(request)


@pytest.mark.parametrize(
    "path", ["/batches/%23%22/results", "/batches/a%3Fb", "/sessions/50%2525", "/sessions/a%20b@c"]
)
def test_ids_reach_the_emulator_as_they_were_sent(path: str) -> None:
    answer = httpx.Response(200)
    asked("GET", path, answer)
    assert answer.request.url.raw_path.decode() == path
