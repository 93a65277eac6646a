"""The replies of a case as they go over the wire, and the script that says which one is next."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.conformance.cases import Json

FILLER = "Over and out."
_PIECE_CHARS = 6
_BEAT_S = 1.0


class Part(NamedTuple):
    """Bytes, sent after a pause."""

    content: bytes
    pause_s: float = 0


@dataclass(frozen=True)
class Wire:
    """One HTTP response. `beats_s` repeats its parts for so long; `reset` breaks the connection off at its end."""

    parts: Sequence[Part]
    status: int = 200
    headers: Json = field(default_factory=dict)
    beats_s: float = 0
    reset: bool = False

    def stream(self) -> Iterator[Part]:
        yield from self.parts
        end = time.monotonic() + self.beats_s
        while time.monotonic() < end:
            first, *rest = self.parts
            yield from (Part(first.content, _BEAT_S), *rest)


class Asked(NamedTuple):
    """A request as it arrived."""

    at: float
    raw: bytes
    body: Json


class Script:
    """A model's replies in order. Behind its end the last one is repeated to an unchanged request (or always, with
    `repeat`), and a filler is said to a new one."""

    def __init__(self, steps: Sequence[Wire], *, repeat: bool = False) -> None:
        self.requests: list[Asked] = []
        self._steps = list(steps)
        self._repeat = repeat
        self._next = 0

    def answer(self, asked: Asked) -> Wire:
        again = bool(self.requests) and self.requests[-1].body.get("messages") == asked.body.get("messages")
        self.requests.append(asked)
        if self._next < len(self._steps):
            self._next += 1
            return self._steps[self._next - 1]
        return self._steps[-1] if self._steps and (again or self._repeat) else said(FILLER)


class Forced(Script):
    """A model that calls a function whenever it is forced to, and otherwise answers."""

    def __init__(self, answer: str) -> None:
        super().__init__([])
        self._answer = answer

    def answer(self, asked: Asked) -> Wire:
        self.requests.append(asked)
        choice = asked.body.get("tool_choice")
        if not isinstance(choice, dict):
            return said(self._answer)
        call = {"id": f"f{len(self.requests)}", "type": "function"}
        function = {"name": choice["function"]["name"], "arguments": '{"q": "x"}'}
        return streamed(completion({"content": None, "tool_calls": [{**call, "function": function}]}, "tool_calls"))


def completion(message: Json, finish_reason: str | None = "stop") -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"choices": [choice], "usage": usage}


def said(text: str) -> Wire:
    return streamed(completion({"content": text}))


def whole(body: Any, status: int = 200, headers: Json | None = None) -> Wire:
    return Wire([Part(json.dumps(body).encode())], status, {"content-type": "application/json", **(headers or {})})


def events(chunks: Sequence[Any], *, done: bool = True, beats_s: float = 0, pause_s: float = 0) -> Wire:
    datas = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"] * done
    return Wire([Part(f"data: {data}\n\n".encode(), pause_s) for data in datas], 200, _stream_type(), beats_s)


def lines(raw: Sequence[str], *, beats_s: float = 0) -> Wire:
    return Wire([Part(f"{line}\n".encode()) for line in raw], 200, _stream_type(), beats_s)


def reads(hexed: Sequence[str]) -> Wire:
    return Wire([Part(bytes.fromhex(each), 0.03) for each in hexed], 200, _stream_type())


def streamed(body: Any, *, pause_s: float = 0) -> Wire:
    """A completion as a stream; one that has no such form is sent whole."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not all(isinstance(each.get("message"), dict) for each in choices):
        return whole(body)
    head = {name: value for name, value in body.items() if name not in ("choices", "usage")}
    chunks = [{**head, "choices": [piece]} for choice in choices for piece in _deltas(choice)]
    if usage := body.get("usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    return events(chunks, pause_s=pause_s)


def in_pieces(pieces: Sequence[str], *, pause_s: float = 0) -> Wire:
    """A text, cut where the case cuts it."""
    chunks: list[Json] = [{"choices": [_choice({"content": piece})]} for piece in pieces]
    return events([*chunks, {"choices": [_choice({}, "stop")]}], pause_s=pause_s)


def response(row: Json) -> Wire:
    """One scripted response of a provider: a body, a raw body, a stream, or a broken connection."""
    headers, status = {k.lower(): str(v) for k, v in row.get("headers", {}).items()}, int(row.get("status", 200))
    pause_s = float(row.get("delay_s", row.get("delay_ms", 0) / 1000))
    if any(row.get(name) for name in ("disconnect", "reset", "connection_error", "network_error")):
        return Wire([], 200, {**_stream_type(), **headers}, reset=True)
    if "chunks" in row:
        return events(row["chunks"], done=row.get("done_marker", True))
    if "lines" in row:
        return lines(row["lines"])
    if "body_raw" in row:
        return Wire([Part(str(row["body_raw"]).encode(), pause_s)], status, {"content-type": "text/html", **headers})
    sent = whole(row.get("body", {}), status, headers)
    return Wire([Part(sent.parts[0].content, pause_s)], status, sent.headers)


def step(turn: Any, *, stream: bool = True) -> Wire:
    """One turn of a scenario, whatever its form."""
    if isinstance(turn, str):
        return in_pieces([turn]) if stream else whole(completion({"content": turn}))
    if "status" in turn or "body_raw" in turn or "disconnect" in turn or "chunks" in turn or "lines" in turn:
        return response(turn)
    return streamed(turn) if stream else whole(turn)


def _stream_type() -> Json:
    return {"content-type": "text/event-stream"}


def _choice(delta: Json, finish_reason: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _deltas(choice: Json) -> Iterator[Json]:
    """A choice as deltas: first all but the calls, then each call opened and its arguments in pieces."""
    index, message = choice.get("index", 0), dict(choice["message"])
    calls = message.pop("tool_calls", None)
    yield {"index": index, "delta": message, "finish_reason": None}
    for place, call in enumerate(calls or []):
        for piece in _call_pieces(call):
            yield {"index": index, "delta": {"tool_calls": [{"index": place, **piece}]}, "finish_reason": None}
    yield {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}


def _call_pieces(call: Json) -> Iterator[Json]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        yield call
        return
    yield {**call, "function": {**function, "arguments": ""}}
    for start in range(0, len(arguments), _PIECE_CHARS):
        yield {"function": {"arguments": arguments[start : start + _PIECE_CHARS]}}
