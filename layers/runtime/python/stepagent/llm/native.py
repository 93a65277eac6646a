"""What the two native modes share: tools, names and results as providers take them."""

from collections.abc import Mapping
from typing import Any

from stepagent.llm.names import legal
from stepagent.llm.schema import Dialect, for_provider, strict_possible
from stepagent.messages import ToolMessage
from stepagent.tool_specs import ToolSpec


def system_messages(system: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": system}] if system else []


def function(tool: ToolSpec, aliases: Mapping[str, str], dialect: Dialect) -> dict[str, Any]:
    """A tool as the model sees it; strict only where the schema allows it."""
    parameters = for_provider(tool.parameters, dialect)
    shown = {"name": wire_name(tool.name, aliases), "description": tool.description, "parameters": parameters}
    return shown | ({"strict": True} if dialect == "openai_strict" and strict_possible(tool.parameters) else {})


def wire_name(name: str, aliases: Mapping[str, str]) -> str:
    """The name that a provider knows a tool by; for one that the model made up, a form that it accepts on replay."""
    return aliases.get(name) or legal(name)


def result_text(message: ToolMessage) -> str:
    # The wire has no field for failure, so the text says it.
    return f"Error: {message.text}" if message.is_error else message.text
