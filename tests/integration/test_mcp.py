"""Whole runs of agents with an MCP server: a real one on this machine, asked by the deployed function."""

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import mcp_types as types
import pytest

from stepagent.agents import AgentSpec
from stepagent.clock import now
from stepagent.mcp_tools import ListedTool, Listing
from stepagent.rows import Row, Spec, key_of
from stepagent.store.catalog import read_standing, write_rows
from stepagent.store.mcp import KeptListing, drop_listing, load_listing, note_failure, store_listing
from stepagent.targets import McpTarget
from stepagent.tool_specs import ToolSpec
from tests.integration.runs import calls_of, finish, function_named, results_of
from tests.local_loop import LocalLoop
from tests.mcp_server import McpServer, a_listed_tool, answering
from tests.scripted_model import Reply, ScriptedModel

DONE = Reply(text="done")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()


def calling(name: str, **arguments: Any) -> Reply:
    return Reply(calls=((name, arguments),))


@pytest.fixture(scope="session")
def mcp_function(loop: LocalLoop) -> str:
    """The deployed function, allowed to reach this machine."""
    name, function = function_named(loop, "tool_mcp"), loop.client("lambda")
    variables = function.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    function.update_function_configuration(
        FunctionName=name, Environment={"Variables": {**variables, "HTTP_ALLOW_PRIVATE": "true"}}
    )
    return name


@pytest.fixture
def server(mcp_function: str, set_environment: Callable[..., None]) -> Iterator[McpServer]:
    """A server of its own for each test, so that no list of another one's is kept."""
    set_environment(MCP_FUNCTION=mcp_function)
    with McpServer(a_listed_tool("weather", "Tells the weather.", SCHEMA)) as running:
        yield running


@pytest.fixture
def agent(server: McpServer) -> str:
    """An agent with the server's tools, named like it."""
    name = f"mcp_{uuid.uuid4().hex[:8]}"
    write(
        ToolSpec(name=name, description="The server.", kind="mcp", timeout_s=2, mcp=target(server)),
        AgentSpec.model_validate(
            {"name": name, "instructions": "Help.", "tools": [{"tool": name, "name": "sky", "bound": {"unit": "C"}}]}
        ),
    )
    return name


def target(server: McpServer) -> McpTarget:
    return McpTarget(url=server.url, allow_http=True)


def write(*specs: Spec) -> None:
    write_rows([Row(key_of(spec), 1, spec, "live", "test", now()) for spec in specs], read_standing().changes)


def test_run_calls_a_servers_tool_when_its_agent_has_the_server(
    loop: LocalLoop, model: ScriptedModel, server: McpServer, agent: str
) -> None:
    model.script(calling("sky_weather", city="Köln"), DONE)
    run = finish(loop, "weather", agent)
    assert (run.answer, [json.loads(text) for text in results_of(run)]) == ("done", [{"city": "Köln", "unit": "C"}])
    [offered] = model.requests[0]["tools"]
    assert (offered["function"]["name"], offered["function"]["description"]) == ("sky_weather", "Tells the weather.")
    assert list(offered["function"]["parameters"]["properties"]) == ["city"]
    assert loop.state_entries(run.run_id) == 8


def test_server_is_asked_once_when_two_runs_begin(
    loop: LocalLoop, model: ScriptedModel, server: McpServer, agent: str
) -> None:
    model.default = DONE
    finish(loop, "one", agent)
    finish(loop, "two", agent)
    assert server.listings == 1


def test_list_is_renewed_when_a_call_finds_its_tool_gone(
    loop: LocalLoop, model: ScriptedModel, server: McpServer, agent: str
) -> None:
    def replace(request: Any) -> Reply:
        server.tools = [a_listed_tool("forecast", schema=SCHEMA)]
        return calling("sky_weather", city="Köln")

    model.script(replace, DONE, calling("sky_forecast", city="Köln"), DONE)
    first = finish(loop, "one", agent)
    assert "Unknown tool: weather" in results_of(first)[0]
    second = finish(loop, "two", agent)
    assert json.loads(results_of(second)[0]) == {"city": "Köln", "unit": "C"}


def test_run_goes_on_when_the_server_went_down(
    loop: LocalLoop, model: ScriptedModel, server: McpServer, agent: str
) -> None:
    model.script(DONE, calling("sky_weather", city="Köln"), DONE)
    finish(loop, "one", agent)
    server.stop()
    run = finish(loop, "two", agent)
    [call] = calls_of(run)
    assert call.result
    assert (run.status, call.result.is_error, call.result.text) == ("completed", True, "127.0.0.1 cannot be reached.")


def test_run_begins_without_tools_when_the_server_was_never_up(
    loop: LocalLoop, model: ScriptedModel, server: McpServer, agent: str
) -> None:
    server.stop()
    model.script(DONE)
    run = finish(loop, "one", agent)
    [request] = model.requests
    assert run.status == "completed"
    assert "tools" not in request
    assert "The tools of sky cannot be reached at present" in request["messages"][0]["content"]


def test_image_reaches_the_model_when_a_tool_returns_one(
    loop: LocalLoop, model: ScriptedModel, server: McpServer, agent: str
) -> None:
    image = types.ImageContent(data=PNG, mime_type="image/png")
    server.answers["weather"] = answering(types.CallToolResult(content=[image]))
    model.script(calling("sky_weather", city="Köln"), DONE)
    run = finish(loop, "radar", agent)
    [call] = calls_of(run)
    assert call.result
    assert call.result.images == (f"data:image/png;base64,{PNG}",)


# ---- what the record keeps


@pytest.fixture
def unknown(loop: LocalLoop) -> McpTarget:
    """A server that the record knows nothing of."""
    return McpTarget(url=f"https://{uuid.uuid4().hex}.example.com/mcp")


def a_listing(description: str = "A tool.") -> Listing:
    tool = ListedTool(name="a", description=description, parameters={"type": "object", "properties": {}})
    return Listing(version="2026-07-28", tools=(tool,))


def test_list_is_kept_as_it_was_when_it_is_small_large_or_small_again(unknown: McpTarget) -> None:
    for listing in (a_listing(), a_listing("x" * 300_000), a_listing("short")):
        store_listing(unknown, listing)
        assert load_listing(unknown).listing == listing


def test_list_outlives_what_goes_wrong_when_it_is_known(unknown: McpTarget) -> None:
    store_listing(unknown, a_listing())
    note_failure(unknown)
    kept = load_listing(unknown)
    assert kept.listing == a_listing()
    assert kept.listed_at
    assert kept.failed_at
    drop_listing(unknown)
    assert load_listing(unknown) == KeptListing(a_listing(), None, None)


def test_nothing_is_kept_when_a_server_was_never_listed(unknown: McpTarget) -> None:
    drop_listing(unknown)
    assert load_listing(unknown) == KeptListing()


def test_list_is_another_when_a_row_speaks_of_the_server_otherwise(unknown: McpTarget) -> None:
    store_listing(unknown, a_listing())
    others: list[dict[str, Any]] = [{"only": ("a",)}, {"headers": {"X-Team": "blue"}}, {"url": f"{unknown.url}2"}]
    assert [load_listing(unknown.model_copy(update=other)).listing for other in others] == [None] * 3
    same = unknown.model_copy(update={"tool": "a", "version": "2026-07-28", "cache_s": 1})
    assert load_listing(same).listing == a_listing()
