"""How a question shall be worked on reaches the API from the command line, and only where somebody says so."""

import json

import httpx
import pytest

from local.api_client import ApiClient, Said


def sent(said: Said) -> dict[str, object]:
    """The body of the request that says it."""
    bodies: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, content=b"data: [DONE]\n\n")

    client = ApiClient("https://api.example.com/v1")
    client._http = httpx.Client(base_url="https://api.example.com/v1", transport=httpx.MockTransport(answer))
    assert list(client.say(said)) == []
    return bodies[0]


def test_agent_works_its_own_way_when_nobody_says_otherwise() -> None:
    assert "strategy" not in sent(Said("Hi", "s", "k"))


@pytest.mark.parametrize("strategy", ["react", "plan", "auto"])
def test_strategy_of_the_command_line_is_sent(strategy: str) -> None:
    assert sent(Said("Hi", "s", "k", strategy=strategy))["strategy"] == strategy
