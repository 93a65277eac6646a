"""What runs shall do, and what they shall come to: parts with a value each, which an answer lists or calls unknown."""

import random
import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["tools", "agent", "person", "plan"]
Entry = Literal["chat", "run", "job"]  # POST /chat/completions, POST /runs, a message in the queue
Way = Literal["charge", "look_up", "consult", "ask", "step"]

_SHARES: dict[Kind, int] = {"tools": 4, "agent": 2, "person": 2, "plan": 1}
# A request that goes through API Gateway takes two functions more, which is much of the room on a small machine.
_ENTRIES: dict[Entry, int] = {"chat": 5, "run": 1, "job": 3}
_PARTS: dict[Kind, tuple[tuple[str, Way], ...]] = {
    "tools": (("a", "charge"), ("b", "look_up"), ("c", "charge")),
    "agent": (("a", "charge"), ("b", "consult")),
    "person": (("a", "charge"), ("b", "ask")),
    "plan": (("a", "step"), ("b", "step")),
}
_KNOWN = re.compile(r"\b(n\d+)\.([a-z])=(\d+)\b")


@dataclass(frozen=True)
class Part:
    """One thing of a task: a value that a call, an agent, a person or a step of a plan brings."""

    name: str
    way: Way
    value: int


@dataclass(frozen=True)
class Task:
    """What one run is asked. `label` is in every text that belongs to it, so that a model without memory knows it."""

    number: int
    kind: Kind
    entry: Entry
    parts: tuple[Part, ...]

    @property
    def label(self) -> str:
        return f"n{self.number}"

    @property
    def question(self) -> str:
        return f"Task {self.label} ({self.kind})."

    def written(self, part: Part) -> str:
        """A part as it stands in results, in the log of effects, and in answers."""
        return f"{self.label}.{part.name}={part.value}"


def make_tasks(seed: int, runs: int) -> list[Task]:
    """The same tasks for the same seed. Only HTTP brings tasks with a person, or a plan: a job can answer nobody."""
    return [make_task(seed, number) for number in range(runs)]


def make_task(seed: int, number: int) -> Task:
    chance = random.Random(f"{seed}/task/{number}")
    kind = chance.choices(list(_SHARES), list(_SHARES.values()))[0]
    entries = [entry for entry in _ENTRIES if entry != "job" or kind in ("tools", "agent")]
    parts = tuple(Part(name, way, chance.randrange(1, 1000)) for name, way in _PARTS[kind])
    entry = chance.choices(entries, [_ENTRIES[entry] for entry in entries])[0]
    return Task(number, kind, entry, parts)


def known_in(text: str) -> dict[str, int]:
    """The values that a text gives, by the names of their parts."""
    return {name: int(value) for _, name, value in _KNOWN.findall(text)}


def answer_of(task: Task, known: dict[str, int]) -> str:
    """The answer to a task of which these values are known: their list, their sum, and what is not known."""
    written = [f"{task.label}.{part.name}={known[part.name]}" for part in task.parts if part.name in known]
    unknown = [part.name for part in task.parts if part.name not in known]
    return f"{task.label}: {' '.join(written)} sum {sum(known.values())} unknown {','.join(unknown) or 'none'}"
