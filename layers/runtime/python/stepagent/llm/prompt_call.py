"""The mode for models without tool support: calls are written and read as text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stepagent.llm.content import plain_text
from stepagent.llm.plain_reader import PlainReader
from stepagent.llm.prompt_reader import PromptReader
from stepagent.llm.protocol import INSTRUCTION, answer_text, call_text, forced_text, protocol_text, result_text
from stepagent.llm.reply import Correction, Listener, ModelRequest, ModeName, TextReader
from stepagent.llm.single_calls import with_single_calls
from stepagent.messages import AssistantMessage, Message, ToolMessage, UserMessage


class _Line(NamedTuple):
    role: str
    content: str


class PromptCall:
    """Asks in text alone. Names are written as they are: no provider looks at them.

    `instruction` replaces the protocol's words, such as by those of another language; the tools precede it as JSON.
    """

    name: ModeName = "prompt_call"

    def __init__(self, instruction: str = "") -> None:
        self._instruction = instruction.strip() or INSTRUCTION

    def render(self, request: ModelRequest, aliases: Mapping[str, str]) -> dict[str, Any]:
        lines = [_Line("system", self._system(request))]
        messages = list(with_single_calls(request.messages))
        in_words = _in_protocol if request.tools else _in_plain_words
        lines += in_words(messages, request.file_header)
        if request.correction:
            lines += _corrected(request.correction)
        return {"messages": [line._asdict() for line in _merged(lines)]}

    def reader(self, request: ModelRequest, listener: Listener) -> TextReader:
        # A model that wrote the protocol before may write it once more where no tool is offered any longer.
        replies = [message for message in request.messages if isinstance(message, AssistantMessage)]
        called = {call.name for message in replies for call in message.calls}
        names = frozenset(called | {tool.name for tool in request.tools})
        return PromptReader(listener, names) if names else PlainReader(listener)

    def _system(self, request: ModelRequest) -> str:
        # The protocol and the tools come first: they stay the same while the rest may change with every session, and
        # a server keeps what it has read only up to the first difference.
        protocol = protocol_text(request.tools, self._instruction) if request.tools else ""
        forced = forced_text(request.tool_choice) if request.tools else ""
        return "\n\n".join(part for part in (protocol, request.system, forced) if part)


def _in_protocol(messages: Iterable[Message], header: bool) -> Iterator[_Line]:
    for message in messages:
        match message:
            case AssistantMessage():
                said = [answer_text(message.text)] if message.text else []
                yield _Line("assistant", "\n".join([*said, *map(call_text, message.calls)]))
            case ToolMessage():
                yield _Line("user", result_text(message))
            case UserMessage():
                yield _Line("user", plain_text(message, header=header))


def _in_plain_words(messages: Iterable[Message], header: bool) -> Iterator[_Line]:
    """Calls are told with their results: a model that sees no protocol must not learn it from its own words."""
    arguments = ""
    for message in messages:
        match message:
            case AssistantMessage():
                arguments = message.calls[0].arguments if message.calls else ""
                yield _Line("assistant", message.text)
            case ToolMessage():
                yield _Line("user", result_text(message, arguments))
            case UserMessage():
                yield _Line("user", plain_text(message, header=header))


def _corrected(correction: Correction) -> Sequence[_Line]:
    return _Line("assistant", correction.said), _Line("user", correction.rule)


def _merged(lines: Iterable[_Line]) -> list[_Line]:
    """Without empty messages, and neighbours of one role as one message.

    A result is the user's words here, and what a person says may follow it. The chat templates of many models that
    need this mode refuse roles that do not alternate.
    """
    merged: list[_Line] = []
    for line in lines:
        if merged and line.content and merged[-1].role == line.role:
            merged[-1] = _Line(line.role, f"{merged[-1].content}\n\n{line.content}")
        elif line.content:
            merged.append(line)
    return merged
