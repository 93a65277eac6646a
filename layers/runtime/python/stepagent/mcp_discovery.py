"""What MCP servers offer when a run begins: from the record while that is fresh, else asked anew.

A run never waits for long, and never fails, because of a server. One that does not answer is not asked again for a
minute; meanwhile its earlier list counts, however old. Where there is none, the agent does without these tools and is
told so: its instructions may speak of them, and a model that misses a tool without a word makes results up.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import ValidationError

from stepagent.agents import AgentSpec
from stepagent.clock import now
from stepagent.errors import ToolError
from stepagent.functions import invoke_function
from stepagent.mcp_tools import Listing, with_server_tools
from stepagent.observe import logger
from stepagent.settings import settings
from stepagent.store.mcp import KeptListing, load_listing, note_failure, store_listing
from stepagent.targets import McpTarget
from stepagent.tool_specs import ToolSpec

_PATIENCE = timedelta(seconds=20)  # for all servers of an agent together
_RETRY = timedelta(seconds=60)
_MISSING = "The tools of {servers} cannot be reached at present: do without them, and say so where they are needed."


def with_discovered_tools(agent: AgentSpec, tools: Sequence[ToolSpec]) -> tuple[AgentSpec, tuple[ToolSpec, ...]]:
    """The agent and its tools, with each MCP server among them replaced by the tools that it offers."""
    servers = {tool.name: tool.mcp for tool in tools if tool.mcp and tool.is_server}
    deadline = now() + _PATIENCE
    found = {name: _listing(name, server, deadline) for name, server in servers.items()}
    listings = {name: listing for name, listing in found.items() if listing is not None}
    return _told(agent, [name for name in servers if name not in listings]), with_server_tools(tools, listings)


def _listing(name: str, server: McpTarget, deadline: datetime) -> Listing | None:
    """What a server offers; None where that was never found out."""
    kept = load_listing(server)
    if not _is_due(kept, server):
        return kept.listing
    try:
        listing = _ask(server, deadline)
    except (ToolError, ValidationError) as error:
        reason = error.message if isinstance(error, ToolError) else "its list is in no known form"
        logger.warning("mcp server not listed", extra={"server": name, "reason": reason, "kept": bool(kept.listing)})
        note_failure(server)
        return kept.listing
    store_listing(server, listing)
    return listing


def _is_due(kept: KeptListing, server: McpTarget) -> bool:
    """Whether the server is to be asked: its list is not fresh, and it did not fail just now."""
    if kept.listed_at and now() - kept.listed_at < timedelta(seconds=server.cache_s):
        return False
    return kept.failed_at is None or now() - kept.failed_at >= _RETRY


def _ask(server: McpTarget, deadline: datetime) -> Listing:
    """Has the function ask that speaks the protocol.

    Raises:
        ToolError: it did not come to a list.
        ValidationError: the list is none.
    """
    if not settings().mcp_function:
        raise ToolError("MCP_FUNCTION is not set")
    answer = invoke_function(settings().mcp_function, {"list": server.model_dump(mode="json")}, deadline)
    return Listing.model_validate(answer)


def _told(agent: AgentSpec, missing: Sequence[str]) -> AgentSpec:
    """The agent, told which servers' tools it has not."""
    if not missing:
        return agent
    note = _MISSING.format(servers=", ".join(missing))
    return agent.model_copy(update={"instructions": f"{agent.instructions.rstrip()}\n\n{note}"})
