"""Writing tools: `@tool` turns a typed function into a tool of an agent."""

from stepagent.errors import ToolError
from stepagent.tools.context import ToolContext
from stepagent.tools.decorator import tool

__all__ = ["ToolContext", "ToolError", "tool"]
