"""The mode of `tools` and `tool_calls`: many calls in one reply, each with an id."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from stepagent.history import Group, in_groups
from stepagent.llm.content import result_images, user_content
from stepagent.llm.native import function, result_text, system_messages, wire_name
from stepagent.llm.plain_reader import PlainReader
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Listener, ModelRequest, ModeName, TextReader
from stepagent.messages import AssistantMessage, CallId, Message, ToolCall, ToolMessage, UserMessage

WireIds = Mapping[CallId, str]


class ToolChoice:
    """Asks with `tools`. Each call and its result carry one id, unique in the conversation and legal for the model."""

    name: ModeName = "tool_choice"

    def __init__(self, model: ModelSpec) -> None:
        self._dialect = model.schema_dialect
        self._vision = model.vision
        self._server = model.server
        self._reasoning_field = model.reasoning_field
        self._id_pattern = re.compile(model.call_id_pattern)

    def render(self, request: ModelRequest, aliases: Mapping[str, str]) -> dict[str, Any]:
        ids = self._wire_ids(request.messages)
        rendered = [each for group in in_groups(request.messages) for each in self._group(group, request, ids, aliases)]
        fields: dict[str, Any] = {"messages": [*system_messages(request.system), *rendered]}
        if request.tools:
            functions = [function(tool, aliases, self._dialect) for tool in request.tools]
            tools = [{"type": "function", "function": each} for each in functions]
            fields |= {"tools": tools, "tool_choice": _choice(request.tool_choice, aliases)}
        return fields

    def reader(self, request: ModelRequest, listener: Listener) -> TextReader:
        return PlainReader(listener)

    def _wire_ids(self, messages: Sequence[Message]) -> WireIds:
        """The provider's own id, which some models look at, unless it cannot serve: some give none, or one for all."""
        ids: dict[CallId, str] = {}
        used: set[str] = set()
        for call in _calls(messages):
            # The last is for providers that want a short id of letters and digits alone.
            candidates = (call.provider_id, call.call_id, sha256(call.call_id.encode()).hexdigest()[:9])
            usable = (each for each in candidates if each not in used and self._id_pattern.fullmatch(each))
            ids[call.call_id] = next(usable, call.call_id)
            used.add(ids[call.call_id])
        return ids

    def _group(
        self, group: Group, request: ModelRequest, ids: WireIds, aliases: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """A reply with its results, and behind them the images that the results hold."""
        vision = self._vision and request.vision
        for message in group:
            match message:
                case UserMessage():
                    content = user_content(message, vision=vision, header=request.file_header)
                    yield {"role": "user", "content": content}
                case AssistantMessage():
                    yield self._assistant(message, ids, aliases)
                case ToolMessage():
                    wire_id = ids.get(message.call_id, message.call_id)
                    yield {"role": "tool", "tool_call_id": wire_id, "content": result_text(message)}
        shown = result_images([message for message in group if isinstance(message, ToolMessage)])
        if vision and shown:
            yield shown

    def _assistant(self, message: AssistantMessage, ids: WireIds, aliases: Mapping[str, str]) -> dict[str, Any]:
        if not message.calls:
            return {"role": "assistant", "content": message.text}
        ours = message.vendor == self._server
        calls = [_call(call, ids[call.call_id], aliases, call.extra if ours else {}) for call in message.calls]
        rendered = {"role": "assistant", "content": message.text or None, "tool_calls": calls}
        return rendered | (self._reasoning(message) if ours else {})

    def _reasoning(self, message: AssistantMessage) -> dict[str, str]:
        wanted = self._reasoning_field and message.reasoning
        return {self._reasoning_field: message.reasoning} if wanted else {}


def _choice(wanted: str, aliases: Mapping[str, str]) -> str | dict[str, Any]:
    if wanted in ("auto", "required"):
        return wanted
    return {"type": "function", "function": {"name": wire_name(wanted, aliases)}}


def _calls(messages: Iterable[Message]) -> list[ToolCall]:
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]


def _call(call: ToolCall, wire_id: str, aliases: Mapping[str, str], extra: Mapping[str, Any]) -> dict[str, Any]:
    named = {"name": wire_name(call.name, aliases), "arguments": call.arguments}
    return {**extra, "id": wire_id, "type": "function", "function": named}
