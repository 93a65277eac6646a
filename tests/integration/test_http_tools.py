"""Calls of other servers, through the deployed functions: what is refused as it stands, and what an owner can allow."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.integration.runs import finish, results_of
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel
from tests.web_server import WebServer, answered

SECRET = "s3cr3t-t0ken"
PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
AGENT = {"instructions": "Use the tools.", "tools": ["item", "http_request"]}


@pytest.fixture(scope="module")
def secret(loop: LocalLoop) -> str:
    loop.client("secretsmanager").create_secret(Name="stepagent/tools/example", SecretString=SECRET)
    return "stepagent/tools/example"


@pytest.fixture
def items(api: httpx.Client, secret: str) -> Iterator[WebServer]:
    """A server of the developer's own, and a tool and an agent that call it."""
    with WebServer(
        answered(f'{{"id": 7, "seen": "Bearer {SECRET}"}}'.encode(), content_type="application/json")
    ) as server:
        target = {
            "url": f"http://127.0.0.1:{server.port}/items/{{id}}",
            "allow_http": True,
            "secrets": {"Authorization": {"secret": secret, "prefix": "Bearer "}},
        }
        row = {"description": "Reads an item.", "kind": "http", "http": target, "parameters": PARAMETERS}
        for path, body in {"/tools/item": row, "/agents/caller": AGENT}.items():
            assert api.put(path, json=body).status_code in (200, 201)
        yield server


@contextmanager
def set_up(loop: LocalLoop, function: str, **variables: str) -> Iterator[None]:
    """The function with these environment variables more, as its owner would set them."""
    functions = loop.client("lambda")
    name = f"stepagent-{function}"
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": {**before, **variables}})
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": before})


def result_of(loop: LocalLoop, model: ScriptedModel, tool: str, arguments: dict[str, Any]) -> str:
    model.script(Reply(calls=((tool, arguments),)), Reply(text="done"))
    [result] = results_of(finish(loop, "call it", "caller"))
    return result


def test_private_address_is_refused_when_nobody_allowed_it(
    loop: LocalLoop, model: ScriptedModel, items: WebServer
) -> None:
    result = result_of(loop, model, "item", {"id": "a/b"})
    assert result == "127.0.0.1 is not on the public internet. Requests go to public addresses only."
    assert items.requests == []


def test_answer_is_the_result_without_its_secret_when_the_owner_allows_the_address(
    loop: LocalLoop, model: ScriptedModel, items: WebServer
) -> None:
    with set_up(loop, "tool_http", HTTP_ALLOW_PRIVATE="true"):
        result = result_of(loop, model, "item", {"id": "a/b"})
    assert result == '{"id":7,"seen":"Bearer [secret]"}'
    [request] = items.requests
    assert (request.target, request.headers["authorization"]) == ("/items/a%2Fb", f"Bearer {SECRET}")


def test_model_reads_which_parameter_allows_hosts_when_none_is_allowed(
    loop: LocalLoop, model: ScriptedModel, items: WebServer
) -> None:
    result = result_of(loop, model, "http_request", {"url": "https://api.example.com/"})
    assert result == "No host is allowed. Whoever deploys this can allow some with the parameter HttpAllowedHosts."


def test_request_reaches_a_host_when_the_owner_lists_it(
    loop: LocalLoop, model: ScriptedModel, items: WebServer
) -> None:
    host = f"http://127.0.0.1:{items.port}"
    with set_up(loop, "tool_http_request", HTTP_ALLOWED_HOSTS=host, HTTP_ALLOW_PRIVATE="true"):
        result = result_of(loop, model, "http_request", {"url": f"{host}/x", "method": "DELETE"})
    assert '"status":200' in result
    assert items.requests[0].line == "DELETE /x HTTP/1.1"
