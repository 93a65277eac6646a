"""What happened in a run and when, read from its events: spans of time, one below the other as they belong together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from local.api_client import RunEvent
from local.view import counted, shortened

Kind = Literal["turn", "call", "question", "step", "mark"]
State = Literal["open", "ok", "error"]

_ENDS = frozenset({"run.completed", "run.failed", "run.cancelled"})


@dataclass
class Span:
    """Something that took time: a turn, a call of it, a question to a person, a step of a plan; marks take none.

    `first` is when the first piece of a reply came. `run_id` names the run that answers a call or does a step.
    """

    kind: Kind
    title: str
    begin: datetime
    end: datetime | None = None
    first: datetime | None = None
    state: State = "open"
    notes: list[str] = field(default_factory=list)
    run_id: str = ""
    asks_leave: bool = False
    inner: list["Span"] = field(default_factory=list)

    @property
    def is_call(self) -> bool:
        """Whether it is a call of the run, not a question whether one may run."""
        return self.kind in ("call", "step") or (self.kind == "question" and not self.asks_leave)

    def close(self, at: datetime, *, failed: bool = False) -> None:
        self.end, self.state = at, "error" if failed else "ok"


@dataclass
class Timeline:
    """The spans of a run in order. `end` is that of its last event, or now where the run goes on."""

    spans: list[Span]
    begin: datetime
    end: datetime


def read_timeline(events: Sequence[RunEvent], now: datetime) -> Timeline:
    """Reads the events of a run from its first one on."""
    reader = _Reader()
    for event in events:
        reader.read(event)
    end = _at(events[-1]) if events[-1].type in _ENDS else now
    return Timeline(reader.spans, _at(events[0]), end)


def walk(spans: Iterable[Span], depth: int = 0) -> Iterable[tuple[int, Span]]:
    """All spans with their depth, in the order in which they are shown."""
    for span in spans:
        yield depth, span
        yield from walk(span.inner, depth + 1)


class _Reader:
    """Puts spans together, event by event."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._calls: dict[str, Span] = {}
        self._questions: dict[str, Span] = {}
        self._asking: set[str] = set()  # calls that are questions themselves

    def read(self, event: RunEvent) -> None:
        at, data = _at(event), event.data
        match event.type.partition(".")[0]:
            case "turn" | "message" | "usage":
                self._read_turn(event.type, at, data)
            case "tool" | "step" | "interaction":
                self._read_call(event.type, at, data)
            case "strategy" | "plan":
                self._read_plan(event.type, at, data)
            case _ if event.type in _ENDS:
                self._end(at, failed=event.type != "run.completed")

    def _read_turn(self, what: str, at: datetime, data: dict[str, Any]) -> None:
        match what:
            case "turn.started":
                self._begin_turn(at, data)
            case "message.delta":
                self._turn.first = self._turn.first or at
            case "message.completed":
                self._turn.close(at)
            case "usage":
                self._turn.notes += _spent(data)

    def _read_call(self, what: str, at: datetime, data: dict[str, Any]) -> None:
        match what:
            case "tool.started" | "step.started":
                self._begin_call(what == "step.started", at, data)
            case "tool.completed" | "step.completed":
                self._end_call(at, data)
            case "interaction.required":
                self._ask(at, data)
            case "interaction.resolved":
                if span := self._questions.get(data["interaction_id"]):
                    span.close(at, failed=data["status"] != "answered")
                    span.notes.append(data["status"])

    def _read_plan(self, what: str, at: datetime, data: dict[str, Any]) -> None:
        match what:
            case "strategy.chosen":
                self._mark(at, f"works by {data['strategy']}", data.get("why", ""))
            case "plan.created":
                self._mark(at, "plan made", counted(len(data["plan"].get("steps", ())), "step"))
            case "plan.updated":
                self._mark(at, "plan changed", data.get("why", ""))

    @property
    def _turn(self) -> Span:
        """The turn that goes on. What comes before the first one, such as the choice of a strategy, is none of it."""
        turns = [span for span in self.spans if span.kind == "turn"]
        return turns[-1] if turns else Span("turn", "", datetime.min)

    def _begin_turn(self, at: datetime, data: dict[str, Any]) -> None:
        last = self._turn
        if last.state == "open":  # it had to wait for its provider, or its function died
            last.close(at, failed=True)
            last.notes.append("no reply")
        attempt = data.get("attempt", 1)
        self.spans.append(Span("turn", f"turn {data['turn']}", at))
        self._turn.notes += [f"attempt {attempt}"] if attempt > 1 else []

    def _begin_call(self, is_step: bool, at: datetime, data: dict[str, Any]) -> None:
        title = f"{data['id']}. {data['title']}" if is_step else data["name"]
        span = Span("step" if is_step else "call", shortened(title), at, run_id=data.get("run_id", ""))
        if not is_step and data.get("arguments", "{}") != "{}":
            span.notes.append(shortened(data["arguments"]))
        self._calls[_call_id(data)] = span
        self._turn.inner.append(span)

    def _end_call(self, at: datetime, data: dict[str, Any]) -> None:
        call_id, failed = _call_id(data), _failed(data)
        span = self._calls.get(call_id)
        if span is None:
            if call_id in self._asking:  # its question is shown
                return
            span = Span("call", shortened(data.get("name") or data.get("title", "")), at)
            self._turn.inner.append(span)
        span.close(at, failed=failed)
        if failed:
            span.notes.append(shortened(data["text"]))

    def _ask(self, at: datetime, data: dict[str, Any]) -> None:
        leave = data["type"] in ("approval", "plan")
        span = Span("question", f"{data['tool']}: {data['type']}", at, asks_leave=leave)
        self._questions[data["interaction_id"]] = span
        if data["type"] != "approval":
            self._asking.add(data["call_id"])
        self._turn.inner.append(span)

    def _mark(self, at: datetime, title: str, note: str) -> None:
        self.spans.append(Span("mark", title, at, at, state="ok", notes=[shortened(note)] if note else []))

    def _end(self, at: datetime, *, failed: bool) -> None:
        for _, span in walk(self.spans):
            if span.state == "open":
                span.close(at, failed=failed)


def _at(event: RunEvent) -> datetime:
    return datetime.fromisoformat(event.at)


def _call_id(data: dict[str, Any]) -> str:
    """Events of steps bear the step's own id, too."""
    return str(data.get("call_id") or data["id"])


def _failed(data: dict[str, Any]) -> bool:
    return bool(data.get("is_error")) or data.get("status") in ("failed", "blocked", "pending")


def _spent(data: dict[str, Any]) -> list[str]:
    """What a turn's usage says, as far as it is known."""
    cost = data.get("cost_usd")
    ttft_ms = data.get("ttft_ms")
    known = [
        f"{data['input_tokens']:,} + {data['output_tokens']:,} tokens",
        f"{data['cached_tokens']:,} cached" if data.get("cached_tokens") else "",
        f"${float(cost):.4f}" if cost is not None else "",
        f"first token {ttft_ms / 1000:.1f} s" if ttft_ms is not None else "",
        " ".join(filter(None, (data.get("model"), data.get("mode")))),
    ]
    return [note for note in known if note]
