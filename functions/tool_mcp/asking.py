"""What is asked of MCP servers: what they offer, and to run a tool."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import mcp_types as types
from listing import cleaned
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter
from results import value_of
from visit import ServerRefused, Visit

from stepagent.clock import now
from stepagent.errors import ToolError
from stepagent.mcp_tools import Listing
from stepagent.targets import McpTarget

_PATIENCE = timedelta(seconds=8)  # for a list, which a run waits for before it begins
_MAX_PAGES = 20
_UNKNOWN_TOOL = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND})
_UNKNOWN = re.compile(r"unknown tool|no such tool|tool .{0,150}not found", re.IGNORECASE)  # older servers say so
_NEEDS_MORE = "The tool asks for something that only a person or a model at the other end could give. Do without it."

CallResult = types.CallToolResult | types.InputRequiredResult
_RESULT: TypeAdapter[CallResult] = TypeAdapter(CallResult)


def ask_for_list(server: McpTarget) -> Listing:
    """What a server offers, as far as that can be used. Secrets of the server are not in it.

    Raises:
        ToolError: it does not answer.
    """

    async def listed(client: Client) -> Listing:
        return Listing(version=client.protocol_version, tools=cleaned(await _all_tools(client), server.only))

    visit = Visit(server)
    listing = visit.ask(listed, now() + _PATIENCE)
    return Listing.model_validate(visit.redaction.value(listing.model_dump(mode="json")))


def ask_for_call(
    target: McpTarget, arguments: Mapping[str, Any], deadline: datetime, outdated: Callable[[], None]
) -> Any:
    """What a tool of a server returns, as a value for the model. Secrets of the target are not in it.

    Args:
        target: the tool.
        arguments: the model's and the author's, by name.
        deadline: when the call is given up.
        outdated: told when the server is not what it was when it was listed.

    Raises:
        ToolError: the tool failed, does not exist, or cannot be reached before the deadline.
    """
    visit = Visit(target)

    async def called(client: Client) -> CallResult:
        visit.acts = True
        try:
            return await _call(client, target.tool, arguments)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH:
                raise
        # It wants some arguments as headers too, which the client knows once it has read the tool's schema.
        await _all_tools(client)
        return await _call(client, target.tool, arguments)

    try:
        result = visit.ask(called, deadline)
        if isinstance(result, types.InputRequiredResult):
            raise ToolError(_NEEDS_MORE)
        return value_of(result, visit.redaction)
    except ToolError as error:
        visit.outdated = visit.outdated or _is_unknown(error)
        raise
    finally:
        if visit.outdated:
            outdated()


def _is_unknown(error: ToolError) -> bool:
    """Whether the server has no such tool, or other parameters for it; at worst its list is read for nothing."""
    return (isinstance(error, ServerRefused) and error.rpc_code in _UNKNOWN_TOOL) or bool(
        _UNKNOWN.search(error.message)
    )


async def _call(client: Client, tool: str, arguments: Mapping[str, Any]) -> CallResult:
    """Not the client's own `call_tool`: that lists all tools behind each call, to check what the tool returned."""
    params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
    return await client.session.send_request(types.CallToolRequest(params=params), _RESULT)


async def _all_tools(client: Client) -> list[types.Tool]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools
