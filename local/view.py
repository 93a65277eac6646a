"""What a person sees of a run, and the plain form of it."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console

from local.plan_news import StepNews, read_plan, step_begun, step_over
from stepagent.planning.plan import Plan, StepStatus

MAX_SHOWN_CHARS = 200
# A model or a tool must not drive the terminal, nor turn round what is read; half a character cannot be written.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass
class Closing:
    """How a stream ended, for the last line."""

    status: str = ""
    run_id: str = ""
    turns: int = 0
    calls: int = 0
    steps: int = 0
    tokens: tuple[int, int] | None = None
    seconds: float = 0
    failure: str = ""
    questions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def line(self) -> str:
        parts = [counted(self.turns, "turn"), counted(self.calls, "tool call")]
        parts += [counted(self.steps, "step")] if self.steps else []
        parts += [f"{self.tokens[0]} + {self.tokens[1]} tokens"] if self.tokens else []
        return " · ".join([*parts, f"{self.seconds:.1f} s", self.run_id])

    @property
    def goes_on(self) -> bool:
        """Whether there is more to follow: the run neither ended nor asks, and nothing broke."""
        return self.status in ("", "running") and not self.failure


class View(Protocol):
    """What is told to a view. `note` comes from any thread, the others from one."""

    def begin(self) -> None: ...
    def turn(self, name: str) -> None: ...
    def reasoning(self, text: str) -> None: ...
    def text(self, text: str) -> None: ...
    def called(self, call_id: str, tool: str, arguments: str) -> None: ...
    def returned(self, call_id: str, tool: str, result: str, *, is_error: bool) -> None: ...
    def plan(self, plan: Plan, change: str | None) -> None: ...  # as it stands, and why it is another one than before
    def step(self, news: StepNews) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self, closing: Closing | None) -> None: ...


class PlainView:
    """Lines as they come, for pipes and logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line_open = False
        self._turn = ""

    def begin(self) -> None:
        self._turn = ""

    def turn(self, name: str) -> None:
        if name != self._turn:  # a turn that waited for the provider begins again
            self._line(name)
        self._turn = name

    def reasoning(self, text: str) -> None:
        pass

    def text(self, text: str) -> None:
        clean = printable(text) if self._line_open else printable(text).lstrip("\n")
        self._write(clean)
        self._line_open = not clean.endswith("\n") if clean else self._line_open

    def called(self, call_id: str, tool: str, arguments: str) -> None:
        self._line(f"-> {tool}({arguments})")

    def returned(self, call_id: str, tool: str, result: str, *, is_error: bool) -> None:
        self._line(f"{'!!' if is_error else '<-'} {tool}: {result}")

    def plan(self, plan: Plan, change: str | None) -> None:
        self._line("plan:" if change is None else f"plan changed: {shortened(change)}")
        for step in plan.steps:
            self._line(f"   {shortened(step.heading)} [{step.status}]")

    def step(self, news: StepNews) -> None:
        named = f"step {news.step_id} ({shortened(news.title)})"
        match news.status:
            case StepStatus.IN_PROGRESS:
                self._line(f"-> {named}")
            case StepStatus.DONE:
                self._line(f"<- {named}: {shortened(news.text)}")
            case StepStatus.PENDING:
                self._line(f"!! {named}, once more: {shortened(news.text)}")
            case _:
                self._line(f"!! {named} {news.status}: {shortened(news.text)}")

    def note(self, text: str) -> None:
        self._line(text)

    def end(self, closing: Closing | None) -> None:
        if closing and closing.failure:
            self._line(f"failed: {closing.failure}")
        if closing and closing.status != "waiting":
            self._line(closing.line)
        elif self._line_open:
            self._line("")

    def _line(self, text: str) -> None:
        self._write(("\n" if self._line_open else "") + (f"{printable(text)}\n" if text else ""))
        self._line_open = False

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def show_planning(view: View, what: str, data: dict[str, Any]) -> None:
    """Shows an event of a plan; others have nothing to do with it."""
    match what:
        case "strategy.chosen":
            how = "a plan" if data["strategy"] == "plan" else "single steps"
            view.note(f"works by {how}: {shortened(data['why'])}")
        case "plan.created":
            view.plan(read_plan(data["plan"]), None)
        case "plan.updated":
            view.plan(read_plan(data["plan"]), data["why"])
        case "step.started":
            view.step(step_begun(data))
        case "step.completed":
            view.step(step_over(data))


def printable(text: str) -> str:
    """The text without characters that would move the cursor or change colours."""
    return _CONTROL.sub("", text)


def shortened(text: str) -> str:
    """One line of at most `MAX_SHOWN_CHARS`."""
    line = " ".join(printable(text).split())
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]} …"


def arguments_line(arguments: str) -> str:
    """JSON arguments as a call in Python would have them; what is no JSON object stays as it is."""
    try:
        values = json.loads(arguments)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return shortened(arguments)
    return shortened(", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items()))


def counted(number: int, noun: str) -> str:
    """The number and its noun, as in `2 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
