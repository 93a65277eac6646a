"""The mode of `functions` and `function_call`: one call in a reply, without an id."""

from collections.abc import Mapping
from typing import Any, assert_never

from stepagent.llm.content import user_content
from stepagent.llm.native import function, result_text, system_messages, wire_name
from stepagent.llm.plain_reader import PlainReader
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Listener, ModelRequest, ModeName, TextReader
from stepagent.llm.single_calls import with_single_calls
from stepagent.messages import AssistantMessage, Message, ToolMessage, UserMessage


class FunctionCall:
    """Asks with `functions`. A call and its result belong together by their place alone."""

    name: ModeName = "function_call"

    def __init__(self, model: ModelSpec) -> None:
        self._dialect = model.schema_dialect
        self._vision = model.vision

    def render(self, request: ModelRequest, aliases: Mapping[str, str]) -> dict[str, Any]:
        rendered = [self._message(message, request, aliases) for message in with_single_calls(request.messages)]
        fields: dict[str, Any] = {"messages": [*system_messages(request.system), *rendered]}
        if request.tools:
            functions = [function(tool, aliases, self._dialect) for tool in request.tools]
            fields |= {"functions": functions, "function_call": _choice(request.tool_choice, aliases)}
        return fields

    def reader(self, request: ModelRequest, listener: Listener) -> TextReader:
        return PlainReader(listener)

    def _message(self, message: Message, request: ModelRequest, aliases: Mapping[str, str]) -> dict[str, Any]:
        match message:
            case UserMessage():
                vision = self._vision and request.vision
                return {"role": "user", "content": user_content(message, vision=vision, header=request.file_header)}
            case AssistantMessage() if not message.calls:
                return {"role": "assistant", "content": message.text}
            case AssistantMessage():
                [call] = message.calls
                made = {"name": wire_name(call.name, aliases), "arguments": call.arguments}
                return {"role": "assistant", "content": message.text or None, "function_call": made}
            case ToolMessage():
                return {"role": "function", "name": wire_name(message.name, aliases), "content": result_text(message)}
            case _:
                assert_never(message)


def _choice(wanted: str, aliases: Mapping[str, str]) -> str | dict[str, str]:
    """This older form knows no `required`."""
    return "auto" if wanted in ("auto", "required") else {"name": wire_name(wanted, aliases)}
