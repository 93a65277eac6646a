"""Broken replies, whole and in streams, through the real path from a provider's bytes to a decided turn.

`FUZZ_ROUNDS` says how many; each round is known by its number, which a failure tells.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stepagent.agents import Limits
from stepagent.errors import ModelError
from stepagent.history import to_messages
from stepagent.llm import providers
from stepagent.llm.ask import Memory, Wishes, ask
from stepagent.llm.function_call import FunctionCall
from stepagent.llm.names import aliases
from stepagent.llm.prompt_call import PromptCall
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Mode, ModelRequest, ModeName, Reply
from stepagent.llm.tool_choice import ToolChoice
from stepagent.messages import AssistantMessage, Message, ToolMessage, UserMessage, message_adapter
from stepagent.runs import Call, CallStatus, Run, TurnRecord
from stepagent.tool_specs import ToolSpec
from stepagent.turn import run_turn
from tests.builders import Heard, a_run, a_tool

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "10000"))

Json = dict[str, Any]
MODEL = ModelSpec(name="m", provider_model="m", base_url="http://127.0.0.1/v1")
MODES: tuple[ModeName, ...] = ("tool_choice", "function_call", "prompt_call")
RENDERERS: tuple[Mode, ...] = (ToolChoice(MODEL), FunctionCall(MODEL), PromptCall())
QUESTION = UserMessage(text="What is new?")

PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ORDER = {
    "type": "object",
    "properties": {
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}},
        "how": {"enum": ["fast", "slow"]},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "price": {"type": "number"},
        "gift": {"type": "boolean"},
    },
    "required": ["lines", "how"],
}
TOOLS: tuple[ToolSpec, ...] = (
    a_tool("weather", parameters=PLACE),
    a_tool("order", parameters=ORDER),
    a_tool("ping", parameters={"type": "object"}),
    a_tool("sage frage", target="tool_ask", parameters=PLACE),
)
RUN = a_run(*TOOLS, limits=Limits(max_turns=2, max_calls_per_turn=5))

ARGUMENTS = (
    '{"city": "Oslo"}',
    '{"lines": [{"n": 1}, {"n": 2}], "how": "fast", "when": null, "price": 1.5, "gift": true}',
    '{"lines": "[{\\"n\\": \\"3\\"}]", "how": "slow"}',
    "{}",
    "",
    "null",
    '"{\\"city\\": \\"Oslo\\"}"',
    "{'city': 'Oslo',}",
    "```json\n{“city”：“Oslo”}\n```",
)
NAMES = (
    "weather",
    "order",
    "ping",
    "sage frage",
    "Weather",
    "functions.weather",
    "wether",
    "",
    "multi_tool_use.parallel",
)
TEXTS = (
    "Hello 😀, it is 10:30.",
    "0: The ratio is 1:2.\n1. item",
    "0：你好，10:30 开始",
    "<think>Hm, 1: {</think>0: Fine.",
    "I look it up.</think>\n0: Found.",
    '1: {"toolId": "weather", "arguments": {"city": "Oslo"}}',
    "1：{“toolId”：“weather”，“arguments”：{“city”：“北京”}}",
    '0: I look.\n1: {"toolId":"order","arguments":{"lines":[{"n":1}],"how":"fast"}}\nResult of order: done',
    '1: ```json\n{"name": "ping", "parameters": null}\n```',
    '1: {"toolId": "nobody"}',
    "1: nothing",
    "",
    "  \n",
)
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1e300, float("inf"), "", "x", "\ud83d", "\ude00", [], {}, [None], ["x"], [[]], {"a": 1},
    {"text": "x"}, [{"text": "x"}], "[DONE]", "\x00", "1:", "0:", "</think>",
)  # fmt: skip
SYNTAX = "{}[]\"':,\\\n\r\t 01：，“”‘’｛｝`<>/think\ud83d\ude00\u2028\x00äé😀"


class Fuzz:
    """One round's source of broken replies. The same number gives the same ones."""

    def __init__(self, number: int) -> None:
        self.random = Random(number)

    def reads(self) -> Iterator[bytes]:
        """A stream's bytes as they may arrive."""
        chunks = self._mutated([*self._chunks(), *([{"choices": [], "usage": {"prompt_tokens": 7}}] * self._often(2))])
        end = self.random.choice(["\n", "\n", "\r\n", "\r"])
        written = "".join(f"data: {json.dumps(chunk, ensure_ascii=self._often(2))}\n\n" for chunk in chunks)
        written += "data: [DONE]\n\n" * self._often(2)
        content = bytearray(written.replace("\n", end).encode("utf-8", "surrogatepass"))
        for _ in range(self._few() if self._often(8) else 0):
            if content:
                content[self.random.randrange(len(content))] = self.random.randrange(256)
        return self._cut(bytes(content))

    def _cut(self, content: bytes) -> Iterator[bytes]:
        while content:
            size = self.random.choice([1, 7, 64, 1024, 65_536])
            yield content[:size]
            content = content[size:]

    def _chunks(self) -> list[Json]:
        deltas = self.random.choice([self._text, self._calls, self._old_call, self._reasoned])()
        finish = self.random.choice(["stop", "tool_calls", "length", "content_filter", "stop", "tool_calls", None, ""])
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
        return [*({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas), last]

    def _text(self) -> list[Json]:
        field = "refusal" if self._often(12) else "content"
        return [{field: piece} for piece in self._pieces(self._written(TEXTS))]

    def _reasoned(self) -> list[Json]:
        return [*({"reasoning_content": piece} for piece in self._pieces(self._written(TEXTS))), *self._text()]

    def _calls(self) -> list[Json]:
        deltas: list[Json] = self._text() if self._often(3) else []
        for index in range(self.random.choice([1, 1, 2, 3, 7])):
            function = {"name": self._written(NAMES), "arguments": ""}
            deltas.append(
                {"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]}
            )
            for piece in self._pieces(self._written(ARGUMENTS)):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        return deltas

    def _old_call(self) -> list[Json]:
        pieces = self._pieces(self._written(ARGUMENTS))
        named = {"function_call": {"name": self._written(NAMES), "arguments": ""}}
        return [named, *({"function_call": {"arguments": piece}} for piece in pieces)]

    def _written(self, texts: tuple[str, ...]) -> str:
        """One of the texts, at times with a few letters changed."""
        text = self.random.choice(texts)
        for _ in range(self._few() if self._often(2) else 0):
            place, letter = self.random.randint(0, len(text)), self.random.choice(SYNTAX)
            text = self.random.choice(
                [text[:place] + letter + text[place:], text[:place] + text[place + 1 :], text[:place]]
            )
        return text

    def _pieces(self, text: str) -> list[str]:
        places = sorted(self.random.randint(0, len(text)) for _ in range(self._few()))
        return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]

    def _mutated(self, chunks: list[Json]) -> list[Any]:
        """The chunks, at times with some lost, doubled, moved or filled with junk."""
        mutated: list[Any] = deepcopy(chunks)
        for _ in range(self._few() if self._often(2) else 0):
            place = self.random.randrange(len(mutated)) if mutated else 0
            change: Callable[[list[Any], int], None] = self.random.choice(
                [self._lose, self._double, self._move, self._spoil]
            )
            change(mutated, place)
        return mutated

    def _lose(self, chunks: list[Any], place: int) -> None:
        del chunks[place : place + 1]

    def _double(self, chunks: list[Any], place: int) -> None:
        chunks[place:place] = deepcopy(chunks[place : place + 1])

    def _move(self, chunks: list[Any], place: int) -> None:
        if chunks:
            chunks.insert(self.random.randrange(len(chunks)), chunks.pop(place))

    def _spoil(self, chunks: list[Any], place: int) -> None:
        """Puts junk somewhere into a chunk, or beside what is there."""
        if not chunks:
            return
        spot: Any = chunks
        key: Any = place
        while isinstance(spot[key], dict | list) and spot[key] and not self._often(4):
            spot = spot[key]
            key = self.random.choice(list(spot)) if isinstance(spot, dict) else self.random.randrange(len(spot))
        if isinstance(spot, dict) and self._often(4):
            key = self.random.choice(["error", "usage", "index", "id", "extra", "function", "content", "name"])
        spot[key] = deepcopy(self.random.choice(JUNK))

    def _often(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def _few(self) -> int:
        return self.random.choice([1, 1, 2, 3, 6])


class Client:
    """A provider that answers with a round's streams. Stands for `OpenAI`, as far as `providers` uses it."""

    def __init__(self, fuzz: Fuzz) -> None:
        self._fuzz = fuzz
        self.chat = SimpleNamespace(completions=SimpleNamespace(with_streaming_response=self))

    @contextmanager
    def create(self, **request: Any) -> Iterator[Any]:
        json.dumps(request).encode()  # what cannot be sent would fail here
        yield SimpleNamespace(headers={"content-type": "text/event-stream"}, iter_bytes=self._fuzz.reads)


def decided(run: Run, turn: int, mode: ModeName, heard: Heard) -> TurnRecord | None:
    """The turn, or nothing where the model gave no usable reply. Any other failure is a fault."""
    memory = Memory(lambda model: frozenset(), lambda model, refused: None)

    def asked(request: ModelRequest) -> Reply:
        return ask([MODEL], request, Wishes(mode), memory, heard)

    try:
        return run_turn(run, turn, [QUESTION], asked)
    except ModelError as error:
        error.message.encode()
        return None


def check_calls(record: TurnRecord) -> None:
    """A call that will run fits its tool; any other has its result."""
    schemas = {tool.name: tool.parameters for tool in TOOLS}
    for call in record.calls:
        if call.status is CallStatus.PENDING:
            Draft202012Validator(schemas[call.name]).validate(call.arguments)
        else:
            assert call.result
            assert call.result.is_error
    pending = [call.call_id for call in record.calls if call.status is CallStatus.PENDING]
    assert [reference.call_id for reference in record.decision.calls] == pending
    assert len(pending) <= RUN.agent.limits.max_calls_per_turn


def check_record(record: TurnRecord, heard: Heard) -> None:
    """What was heard is what is stored, and the record gives back what it was given."""
    assert record.reply
    assert "".join(heard.texts) + record.unsaid == record.reply.text
    assert message_adapter.validate_json(record.reply.model_dump_json()) == record.reply
    for call in record.calls:
        assert Call.model_validate_json(call.model_dump_json()) == call
    assert [call.call_id for call in record.calls] == [call.call_id for call in record.reply.calls]


def check_replay(record: TurnRecord) -> None:
    """The next request pairs every call with its result, in every mode, and can be sent."""
    assert record.reply
    messages = to_messages([QUESTION, record.reply, *record.calls, UserMessage(text="And now?")])
    check_pairs(messages)
    names = aliases([tool.name for tool in TOOLS])
    for mode in RENDERERS:
        tools = TOOLS if mode.name == "prompt_call" else ()  # native modes tell calls alike without their tools
        fields = mode.render(ModelRequest("Be kind.", messages, tools), names)
        json.dumps(fields, ensure_ascii=False).encode()
        sent = fields["messages"]
        made = [call["id"] for message in sent for call in message.get("tool_calls", ())]
        assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == made
        assert len(set(made)) == len(made)
        functions = [message["function_call"]["name"] for message in sent if "function_call" in message]
        assert [message["name"] for message in sent if message["role"] == "function"] == functions


def check_pairs(messages: list[Message]) -> None:
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert not isinstance(message, ToolMessage)
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            result = rest.pop(0)
            assert isinstance(result, ToolMessage)
            assert result.call_id == call.call_id


def test_turn_is_sound_or_the_reply_is_refused_whatever_the_provider_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = 0
    for number in range(ROUNDS):
        fuzz, heard = Fuzz(number), Heard()
        monkeypatch.setattr(providers, "_client", lambda model, key, fuzz=fuzz: Client(fuzz))
        turn = 3 if number % 10 == 0 else 1  # at times the closing one
        try:
            record = decided(RUN, turn, MODES[number % 3], heard)
            if record:
                decisions += 1
                check_calls(record)
                check_record(record, heard)
                check_replay(record)
        except Exception as error:
            raise AssertionError(f"round {number}: {type(error).__name__}: {error}") from error
    assert decisions > ROUNDS / 4  # else it tests nothing but refusals
