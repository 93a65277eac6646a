"""Ten tasks of known shape, and a model that knows them.

One script answers whichever way a task is worked on. It knows the parts of a task and which of them build on one
another, asks for one tool call a part, and asks for as many at once as it can: so each way does the same work.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from bench.model import ANSWER
from tests.scripted_replies import Json, Reply

_TOKEN_CHARS = 4
_PLAN, _REVIEW, _ANSWER, _STEP = "Make the plan.", "Review it.", "Answer the person now", "The step: Part "


class Task(NamedTuple):
    """Parts by name, each with those that it builds on. The tool fails once for the part that is `broken`."""

    name: str
    parts: Mapping[str, Sequence[str]]
    broken: str = ""

    @property
    def layers(self) -> Iterator[tuple[str, ...]]:
        """The parts that can be done at the same time, one layer behind the other."""
        order = TopologicalSorter(self.parts)
        order.prepare()
        while order.is_active():
            ready = tuple(sorted(order.get_ready()))
            order.done(*ready)
            yield ready


def _chain(length: int, name: str = "abcdefgh") -> dict[str, Sequence[str]]:
    return {part: name[index - 1 : index] for index, part in enumerate(name[:length])}


def _at_once(count: int) -> dict[str, Sequence[str]]:
    return {part: () for part in "abcdefgh"[:count]}


_DIAMOND: dict[str, Sequence[str]] = {"a": "", "b": "a", "c": "a", "d": "bc", "e": "d"}

TASKS = (
    Task("one part", _chain(1)),
    Task("a chain of 3", _chain(3)),
    Task("a chain of 6", _chain(6)),
    Task("2 at once", _at_once(2)),
    Task("4 at once", _at_once(4)),
    Task("8 at once", _at_once(8)),
    Task("8 at once, then a sum", {**_at_once(8), "i": "abcdefgh"}),
    Task("a diamond of 5", _DIAMOND),
    Task("two chains of 3", {**_chain(3), **_chain(3, "uvw")}),
    Task("a diamond of 5, a tool fails once", _DIAMOND, broken="c"),
)
_BY_NAME = {task.name: task for task in TASKS}


@dataclass(frozen=True)
class Script:
    """A model that knows the tasks. It keeps no state, and counts tokens by characters."""

    first_token_s: float = 0.3
    each_token_s: float = 0.02

    def __call__(self, request: Json) -> Reply:
        said = [message for message in request["messages"] if message["role"] != "system"]
        last = max(index for index, message in enumerate(said) if message["role"] == "user")
        text, replies = str(said[last]["content"]), sum(message["role"] == "assistant" for message in said[last:])
        task = _BY_NAME[
            next(found[1] for message in said if (found := re.search("task: (.+)$", str(message["content"]), re.M)))
        ]
        read_chars = sum(map(_chars, request["messages"])) + len(json.dumps(request.get("tools", "")))
        return self._reply(read_chars, **_said(task, text, replies))

    def _reply(self, read_chars: int, **said: Any) -> Reply:
        written = said.get("text", "") + json.dumps(said.get("calls", ()))
        return Reply(
            **said,
            usage=(read_chars // _TOKEN_CHARS, len(written) // _TOKEN_CHARS),
            first_delay_s=self.first_token_s,
            delay_s_per_chunk=self.each_token_s,
            chunk_chars=_TOKEN_CHARS,
        )


def _chars(message: Json) -> int:
    """What a message says, without the ids of its calls, which are longer the more requests there were."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return len(str(message["content"] or "")) + sum(len(call["name"]) + len(call["arguments"]) for call in calls)


def question(task: Task) -> str:
    return f"Work out what there is to work out.\ntask: {task.name}"


def _said(task: Task, text: str, replies: int) -> dict[str, Any]:
    """What the model says to a text of the user, behind which it has given so many replies."""
    if text.startswith(_PLAN):
        return {"text": json.dumps({"steps": [_step(part, before) for part, before in task.parts.items()]})}
    if _REVIEW in text:
        return {"text": '{"why": "It goes well.", "add": [], "change": [], "skip": []}'}
    if _ANSWER in text:
        return {"text": ANSWER}
    if _STEP in text:
        part = text.partition(_STEP)[2][0]
        turns, closing = list(_turns([(part,)], task.broken)), f"Part {part} comes to 391."
    else:
        turns, closing = list(_turns(task.layers, task.broken)), ANSWER
    return {"calls": turns[replies]} if replies < len(turns) else {"text": closing}


def _turns(layers: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]], broken: str) -> Iterator[tuple[Any, ...]]:
    """The calls of each turn; one that fails is made again, rightly, in the next one."""
    for layer in layers:
        yield tuple(_call(part, "17*" if part == broken else "17*23") for part in layer)
        if broken in layer and broken:
            yield (_call(broken, "17*23"),)


def _call(part: str, expression: str) -> tuple[str, dict[str, str]]:
    return "calculator", {"expression": f"{expression}+0*{ord(part)}"}


def _step(part: str, before: Sequence[str]) -> dict[str, Any]:
    described = f"Multiply 17 by 23 for part {part}, with the calculator."
    return {"id": part, "title": f"Part {part}", "description": described, "depends_on": list(before)}
