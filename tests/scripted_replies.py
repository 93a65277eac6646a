"""What a scripted model can answer, and how each answer looks on the wire of chat completions."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]  # wire bodies stay untyped: a script may hold what no schema allows


@dataclass(frozen=True, kw_only=True)
class Pace:
    """When the chunks of a stream leave, and after how many it stalls (only SSE comments follow) or breaks off."""

    first_delay_s: float = 0
    delay_s_per_chunk: float = 0
    stall_after_chunks: int | None = None
    cut_after_chunks: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reply(Pace):
    """What the model says.

    A call is (name, arguments); arguments given as text are sent as they are, valid or not. The mode `functions` sends
    the legacy `function_call`, which holds one call. `usage` is (prompt, completion) in tokens.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    reasoning: str = ""
    finish_reason: str | None = None
    usage: tuple[int, int] = (10, 5)
    chunk_chars: int = 8
    mode: Literal["tools", "functions"] = "tools"


@dataclass(frozen=True, kw_only=True)
class Raw(Pace):
    """The literal chunks of a stream; without `done` it ends in order, but early."""

    chunks: tuple[Json, ...] = ()
    done: bool = True


@dataclass(frozen=True)
class Body:
    """A literal completion; a stream gets one chunk for each of its choices."""

    completion: Json


@dataclass(frozen=True)
class Fault:
    """An HTTP error in place of an answer; a text body is sent as HTML."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json | str = field(default_factory=lambda: {"error": {"message": "scripted fault", "type": "scripted"}})


Answer = Reply | Raw | Body | Fault
Step = Answer | Callable[[Json], Answer]


def completion(answer: Reply | Body, number: int) -> Json:
    """The whole answer as one `chat.completion`; `number` makes its ids unique."""
    if isinstance(answer, Body):
        return answer.completion
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message |= _calls_field(answer, number)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": "scripted"}
    return head | {"choices": [choice], "usage": _usage(answer)}


def chunks(answer: Reply | Raw | Body, number: int, include_usage: bool) -> Iterator[Json]:
    """The answer as the `chat.completion.chunk` objects of a stream, the usage last if it is asked for."""
    if isinstance(answer, Raw):
        yield from answer.chunks
        return
    whole = completion(answer, number)
    head = {**whole, "object": "chat.completion.chunk"}
    usage = head.pop("usage", None)
    choices = _choices(answer, number) if isinstance(answer, Reply) else map(_as_delta, whole["choices"])
    for choice in choices:
        yield head | {"choices": [choice]}
    if include_usage and usage:
        yield head | {"choices": [], "usage": usage}


def _choices(reply: Reply, number: int) -> Iterator[Json]:
    for delta in _deltas(reply, number):
        yield {"index": 0, "delta": delta, "finish_reason": None}
    yield {"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}


def _deltas(reply: Reply, number: int) -> Iterator[Json]:
    yield {"role": "assistant", "content": "" if reply.text else None}
    yield from ({"reasoning_content": piece} for piece in _pieces(reply.reasoning, reply.chunk_chars))
    yield from ({"content": piece} for piece in _pieces(reply.text, reply.chunk_chars))
    for index, call in enumerate(_tool_calls(reply, number)):
        opening = {**call["function"], "arguments": ""}
        yield _call_delta(reply, opening, {"index": index, "id": call["id"], "type": "function"})
        for piece in _pieces(call["function"]["arguments"], reply.chunk_chars):
            yield _call_delta(reply, {"arguments": piece}, {"index": index})


def _call_delta(reply: Reply, function: Json, place: Json) -> Json:
    return (
        {"function_call": function} if reply.mode == "functions" else {"tool_calls": [{**place, "function": function}]}
    )


def _calls_field(reply: Reply, number: int) -> Json:
    calls = _tool_calls(reply, number)
    return {"function_call": calls[0]["function"]} if reply.mode == "functions" else {"tool_calls": calls}


def _tool_calls(reply: Reply, number: int) -> list[Json]:
    texts = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in reply.calls]
    return [
        {"id": f"call_{number}_{index}", "type": "function", "function": {"name": name, "arguments": text}}
        for index, (name, text) in enumerate(texts[:1] if reply.mode == "functions" else texts)
    ]


def _as_delta(choice: Json) -> Json:
    message = dict(choice["message"])
    if calls := message.get("tool_calls"):
        message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    return {"index": choice["index"], "delta": message, "finish_reason": choice["finish_reason"]}


def _finish_reason(reply: Reply) -> str:
    called = "function_call" if reply.mode == "functions" else "tool_calls"
    return reply.finish_reason or (called if reply.calls else "stop")


def _usage(reply: Reply) -> Json:
    prompt, completed = reply.usage
    return {"prompt_tokens": prompt, "completion_tokens": completed, "total_tokens": prompt + completed}


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
