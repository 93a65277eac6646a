"""The mode of `tools` and `tool_calls`: many calls in one reply."""

import re
from collections.abc import Sequence
from typing import Any, assert_never

from stepagent.agents import ToolSpec
from stepagent.messages import AssistantMessage, Message, ToolMessage, UserMessage


def render(system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The request fields that carry the conversation and the tools. Without tools none of the tool fields is sent."""
    rendered = [{"role": "system", "content": system}] if system else []
    fields: dict[str, Any] = {"messages": [*rendered, *(_message(message) for message in messages)]}
    if tools:
        fields |= {"tools": [_tool(tool) for tool in tools], "tool_choice": "auto"}
    return fields


def _tool(tool: ToolSpec) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}} | tool.parameters
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _message(message: Message) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage():
            return _assistant(message)
        case ToolMessage():
            text = f"Error: {message.text}" if message.is_error else message.text
            return {"role": "tool", "tool_call_id": message.call_id, "content": text}
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    if not message.calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {"id": call.call_id, "type": "function", "function": {"name": _legal(call.name), "arguments": call.arguments}}
        for call in message.calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _legal(name: str) -> str:
    """A name that providers accept on replay, also where the model made up one that they would not."""
    return re.sub(r"^(?![A-Za-z_])|[^A-Za-z0-9_-]", "_", name)[:64]
