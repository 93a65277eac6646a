"""Pages of other origins, as the emulator's API Gateway and the functions answer them."""

from collections.abc import Iterator

import httpx
import pytest

from tests.local_loop import API_KEY, CORS_ORIGIN, LocalLoop

KEY = {"authorization": f"Bearer {API_KEY}"}
ORIGIN = "access-control-allow-origin"


@pytest.fixture
def gateway(loop: LocalLoop) -> Iterator[httpx.Client]:
    """What a page of the allowed origin sends its requests with."""
    with httpx.Client(base_url=loop.stack.api_url, headers={"origin": CORS_ORIGIN}, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("path", ["/models", "/runs/run_a_1", "/interactions/x", "/agents/a"])
def test_preflight_succeeds_without_a_key(gateway: httpx.Client, path: str) -> None:
    reply = gateway.options(path, headers={"access-control-request-headers": "authorization,content-type"})
    assert (reply.status_code, reply.headers[ORIGIN]) == (200, "*")
    assert "Authorization" in reply.headers["access-control-allow-headers"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/models", KEY, 200),
        ("GET", "/runs/run_a_1", KEY, 404),
        ("POST", "/interactions/x", KEY, 400),
        ("GET", "/models", {}, 401),
        ("GET", "/models", {"authorization": "Bearer wrong"}, 401),
        ("GET", "/nowhere", KEY, 404),
    ],
)
def test_reply_can_be_read_whatever_it_is(
    gateway: httpx.Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    reply = gateway.request(method, path, headers=headers)
    assert (reply.status_code, reply.headers[ORIGIN] in ("*", CORS_ORIGIN)) == (status, True)
    assert status == 200 or set(reply.json()["error"]) == {"message", "type", "param", "code"}


def test_reply_of_a_function_cannot_be_read_by_another_origin(gateway: httpx.Client) -> None:
    assert ORIGIN not in gateway.get("/models", headers={**KEY, "origin": "https://evil.example"}).headers
