"""What has to be run for a case of the loop: one drive a variant or text, each with the model's script."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.conformance import wire
from tests.conformance.cases import Case, Json
from tests.conformance.wire import Forced, Script, Wire

_CUTS = 3  # characters of a piece where a case names none


@dataclass(frozen=True)
class Drive:
    """One run of the loop. `row` holds fields of the model's row; `name` is that row's name and the script's."""

    case: Case
    name: str
    script: Script
    label: str = ""
    position: int = 0
    mode: str | None = None
    row: Json = field(default_factory=dict)


Planned = tuple[str, Script] | tuple[str, Script, int]


def plan(case: Case, number: int) -> list[Drive]:
    """The drives of a case; `number` makes their names unique."""
    planned = list(_PLANS[case.kind](case.input))
    mode = "prompt_text" if case.kind.startswith("prompt_text") else None
    return [
        Drive(case, f"case-{number}-{index}", each[1], each[0], each[2] if len(each) > 2 else 0, mode, row_of(case))
        for index, each in enumerate(planned)
    ]


def is_loop(case: Case) -> bool:
    return case.kind in _PLANS


def row_of(case: Case) -> Json:
    """What the case says of its model, as fields of a model's row."""
    given, row = case.input, Json()
    for name, field_name in (("idle_limit_s", "idle_timeout_s"), ("context_tokens", "context_tokens")):
        if name in given:
            row[field_name] = given[name]
    if "provider" in given:
        row["provider"] = given["provider"]
    if "vision" in given:
        row["vision"] = given["vision"]
    return row


def _completion(given: Json) -> Iterator[Planned]:
    body, status, repeat = given["response"], given.get("http_status", 200), given.get("repeat_forever", False)
    if status != 200:
        yield "whole", Script([wire.whole(body, status, given.get("headers"))], repeat=repeat)
        return
    yield "streamed", Script([wire.streamed(body)], repeat=repeat)
    yield "whole", Script([wire.whole(body)], repeat=repeat)


def _arguments(given: Json) -> Iterator[Planned]:
    function = {"name": given["name"], "arguments": given["arguments"]}
    call = {"id": given.get("id", "c1"), "type": "function", "function": function}
    body = wire.completion({"content": None, "tool_calls": [call]}, given.get("finish_reason", "tool_calls"))
    return _completion({"response": body})


def _sse(given: Json) -> Iterator[Planned]:
    first = wire.events(given["chunks"], done=given.get("done_marker", True))
    again = [wire.events(given["retry_stream"])] if "retry_stream" in given else []
    yield "", Script([first, *again], repeat=given.get("repeat_forever", False))


def _sse_raw(given: Json) -> Iterator[Planned]:
    yield "", Script([wire.lines(given["lines"], beats_s=float(given.get("repeat_s", 0)))])


def _sse_bytes(given: Json) -> Iterator[Planned]:
    yield "", Script([wire.reads(given["reads"])])


def _prompt_text(given: Json) -> Iterator[Planned]:
    for form, reply in _said(given, given.get("text", "".join(given.get("pieces", [])))):
        yield form, Script([reply])


def _prompt_text_set(given: Json) -> Iterator[Planned]:
    for position, text in enumerate(given["texts"]):
        for form, reply in _said({**given, "pieces": None}, text):
            yield f"text {position + 1} {form}".strip(), Script([reply]), position


def _said(given: Json, text: str) -> Iterator[tuple[str, Wire]]:
    """A text as it comes: in the case's own pieces, one character a piece as well where it streams, or whole."""
    if given.get("pieces"):
        yield "as cut", wire.in_pieces(given["pieces"])
    if given.get("stream", bool(given.get("pieces"))):
        yield "by character", wire.in_pieces(list(text))
        yield "in threes", wire.in_pieces([text[at : at + _CUTS] for at in range(0, len(text), _CUTS)])
        return
    yield "whole", wire.whole(wire.completion({"content": text}))


def _scenario(given: Json) -> Iterator[Planned]:
    if "turns" not in given:
        yield "", _behaving(str(given.get("model_behaviour", "")))
        return
    repeat = any(given.get(name) for name in ("repeat_forever", "repeat_last"))
    yield "", Script([wire.step(turn) for turn in given["turns"]], repeat=repeat)


def _behaving(behaviour: str) -> Script:
    answer = re.search(r"answers? [\"'“](.+?)[\"'”]", behaviour)
    return Forced(answer[1] if answer else wire.FILLER)


def _http(given: Json) -> Iterator[Planned]:
    yield "", Script([wire.response(row) for row in given["responses"]], repeat=True)


_PLANS: dict[str, Callable[[Json], Iterator[Any]]] = {
    "completion": _completion,
    "arguments": _arguments,
    "sse": _sse,
    "sse_raw": _sse_raw,
    "sse_bytes_hex": _sse_bytes,
    "prompt_text": _prompt_text,
    "prompt_text_set": _prompt_text_set,
    "scenario": _scenario,
    "http": _http,
}
