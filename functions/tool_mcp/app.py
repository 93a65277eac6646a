"""Speaks to MCP servers: runs calls of tools of kind `mcp`, and lists what a server offers."""

from typing import Any

from asking import ask_for_call, ask_for_list

from stepagent.observe import observed
from stepagent.store.mcp import drop_listing
from stepagent.targets import McpTarget
from stepagent.tools.execution import Invocation, execute


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The event is a call, `{"run_id", "call_id"}`, or `{"list": <a server>}`, whose list is returned."""
    if "list" in event:
        return ask_for_list(McpTarget.model_validate(event["list"])).model_dump(mode="json")
    execute(event["run_id"], event["call_id"], call_tool)
    return {"call_id": event["call_id"]}


def call_tool(invocation: Invocation) -> Any:
    target = invocation.tool.mcp
    assert target  # a row of this kind has it
    return ask_for_call(target, invocation.arguments, invocation.deadline, outdated=lambda: drop_listing(target))
