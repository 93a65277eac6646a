"""Tools of MCP servers: what a server says of them, and what a run makes of it. Pure.

What a server says is a claim. Descriptions and schemas go to the model as data. Its hints (read-only, idempotent,
destructive) are not looked at unless the row says `trust_hints`, in neither direction: a wrong claim of idempotence
would have a payment made twice, and one of destructiveness would have runs that nobody watches wait for a person. Where
they are trusted they never take an approval away.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count
from typing import Any

from stepagent.llm.names import aliases
from stepagent.models import Frozen
from stepagent.parameters import closed, without_arguments
from stepagent.tool_specs import ToolSpec


class ListedTool(Frozen):
    """One tool of a server, and its hints. `parameters` is a JSON Schema of type object, without references."""

    name: str
    description: str
    parameters: dict[str, Any]
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False


class Listing(Frozen):
    """What a server offers, and the version of the protocol that it speaks."""

    version: str
    tools: tuple[ListedTool, ...]


def with_server_tools(tools: Sequence[ToolSpec], listings: Mapping[str, Listing]) -> tuple[ToolSpec, ...]:
    """The tools of an agent with each server replaced by its tools, in order; a server without a listing by none.

    Args:
        tools: the agent's tools as it has them.
        listings: what the servers among them offer, by the name of their tool.
    """
    taken = {tool.name for tool in tools if not tool.is_server}
    found: list[ToolSpec] = []
    for tool in tools:
        if not tool.is_server:
            found.append(tool)
        elif tool.name in listings:
            found += _server_tools(tool, listings[tool.name], taken)
    return tuple(found)


def _server_tools(server: ToolSpec, listing: Listing, taken: set[str]) -> list[ToolSpec]:
    """One tool each, named `<server>_<tool>`; the names are added to `taken`."""
    tools = []
    for listed in listing.tools:
        name = _free_name(server.name, listed.name, taken)
        taken.add(name)
        tools.append(_server_tool(server, listed, name, listing.version))
    return tools


def _server_tool(server: ToolSpec, listed: ListedTool, name: str, version: str) -> ToolSpec:
    """The tool with the server's terms."""
    assert server.mcp
    parameters = closed(listed.parameters)
    bound = _taken_by(parameters, server.bound)
    own = {
        "name": name,
        "description": listed.description,
        "mcp": server.mcp.model_copy(update={"tool": listed.name, "version": version}),
        "parameters": without_arguments(parameters, bound),
        "bound": bound,
        **(_hinted(server, listed) if server.mcp.trust_hints else {}),
    }
    return server.model_copy(update=own)


def _taken_by(parameters: Mapping[str, Any], bound: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the bound arguments that are among these parameters, or may be."""
    takes_any = parameters.get("additionalProperties") is not False
    known = parameters.get("properties", {})
    return {name: value for name, value in bound.items() if takes_any or name in known}


def _hinted(server: ToolSpec, listed: ListedTool) -> dict[str, Any]:
    stricter = listed.destructive and not listed.read_only
    return {
        "idempotent": server.idempotent or listed.idempotent or listed.read_only,
        "approval": "always" if stricter else server.approval,
    }


def _free_name(server: str, tool: str, taken: Collection[str]) -> str:
    """A name that every provider takes and nothing else has: `<server>_<tool>` where that is possible."""
    wanted = chain([f"{server}_{tool}"], (f"{server}\0{tool}\0{number}" for number in count()))
    return next(name for name in map(_legal, wanted) if name not in taken)


def _legal(name: str) -> str:
    return aliases([name])[name]
