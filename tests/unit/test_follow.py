"""Following a run by its events, over a journal in memory."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stepagent.api import follow as subject
from stepagent.api.follow import Progress, follow
from stepagent.runs import RunId
from stepagent.store.journal import Event
from tests.builders import RUN_ID, a_run


class Told:
    """Events that appear one read after the other. Stands for `read_events`."""

    def __init__(self, *reads: Sequence[Event]) -> None:
        self.events: list[Event] = []
        self.reads = list(reads)

    def __call__(self, run_id: RunId, after: int) -> list[Event]:
        if self.reads:
            self.events += self.reads.pop(0)
        return [event for event in self.events if event.n > after]


def numbered(*events: tuple[str, dict[str, Any]], start: int = 1) -> list[Event]:
    return [Event(n, type_, "", data) for n, (type_, data) in enumerate(events, start)]


def replied(*ids: str) -> tuple[str, dict[str, Any]]:
    return "message.completed", {"turn": 1, "calls": [{"id": id_, "name": "t"} for id_ in ids]}


def completed(id_: str) -> tuple[str, dict[str, Any]]:
    return "tool.completed", {"id": id_, "name": "t", "text": "x", "is_error": False}


def asked(id_: str, number: int = 1) -> tuple[str, dict[str, Any]]:
    """One of the questions behind a call: an agent's call may stand for several."""
    asks = {"call_id": id_, "interaction_id": f"q-{id_}-{number}", "description": "Which?", "type": "text"}
    return "interaction.required", asks


def resolved(id_: str, number: int = 1) -> tuple[str, dict[str, Any]]:
    return "interaction.resolved", {"call_id": id_, "interaction_id": f"q-{id_}-{number}", "status": "answered"}


ENDED: tuple[str, dict[str, Any]] = ("run.completed", {})


def progress_after(*events: tuple[str, dict[str, Any]]) -> Progress:
    progress = Progress()
    for event in numbered(*events):
        progress.see(event)
    return progress


def test_run_waits_when_every_open_call_asks_a_person() -> None:
    assert progress_after(replied("a", "b"), asked("a"), asked("b")).waits


@pytest.mark.parametrize(
    "events",
    [
        [replied("a")],
        [replied("a", "b"), asked("a")],
        [replied("a"), asked("a"), completed("a")],
        [replied("a"), asked("a"), completed("a"), resolved("a")],
        [replied("a", "b"), asked("b"), ("tool.started", {"id": "a"})],
        [replied("a"), asked("a"), resolved("a")],
        [replied("a"), asked("a", 1), asked("a", 2), resolved("a", 2), resolved("a", 1)],
        [replied("a"), asked("a", 1), asked("a", 2), completed("a")],
        [replied("a"), asked("a"), ("turn.started", {"turn": 2, "attempt": 1})],
        [replied("a"), asked("a"), ("turn.started", {"turn": 2, "attempt": 1}), replied("b"), resolved("a")],
    ],
)
def test_run_goes_on_when_no_question_is_open_or_another_call_runs(events: list[tuple[str, dict[str, Any]]]) -> None:
    assert not progress_after(*events).waits


def test_run_waits_when_the_ordinary_call_of_the_turn_has_ended() -> None:
    assert progress_after(replied("a", "b"), asked("b"), completed("a")).waits


@pytest.mark.parametrize(
    "events",
    [
        [asked("a", 1), asked("a", 2), resolved("a", 1)],
        [asked("a", 1), resolved("a", 1), asked("a", 2)],
        [asked("a", 1), asked("a", 1)],
        [asked("a"), asked("b"), resolved("a"), completed("a")],
    ],
)
def test_run_waits_when_one_of_several_questions_is_open(events: list[tuple[str, dict[str, Any]]]) -> None:
    calls = {event[1]["call_id"] for event in events if "call_id" in event[1]}
    progress = progress_after(replied(*calls), *events)
    assert (progress.waits, len(progress.questions)) == (True, 1)


@pytest.mark.parametrize("last", ["run.completed", "run.failed", "run.cancelled"])
def test_run_has_ended_when_its_last_event_was_seen(last: str) -> None:
    assert progress_after((last, {})).ended


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_QUICK_S", 0.0001)
    monkeypatch.setattr(subject, "_SLOW_S", 0.0001)


def followed(monkeypatch: pytest.MonkeyPatch, told: Told, after: int = 0) -> list[Event | None]:
    async def collect() -> list[Event | None]:
        return [event async for event in follow(RUN_ID, after, Progress())]

    monkeypatch.setattr(subject, "read_events", told)
    return asyncio.run(asyncio.wait_for(collect(), 2))


def test_every_event_is_told_once_and_in_order_when_they_come_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    events = numbered(("run.started", {}), ("turn.started", {}), replied(), ENDED)
    assert followed(monkeypatch, Told([], events[:1], [], events[1:3], events[3:])) == events


def test_only_later_events_are_told_when_a_follower_knows_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    events = numbered(("run.started", {}), replied(), ENDED)
    assert followed(monkeypatch, Told(events), after=1) == events[1:]


def test_following_ends_when_only_a_person_can_make_the_run_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    events = numbered(replied("a", "b"), asked("b"), completed("a"))
    assert followed(monkeypatch, Told(events[:2], [], events[2:])) == events


def test_following_goes_on_when_the_answer_stands_in_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    events = numbered(replied("a"), asked("a"), completed("a"), resolved("a"), ENDED)
    assert followed(monkeypatch, Told(events[:4], events[4:])) == events


def test_following_ends_when_one_of_two_questions_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    before = numbered(replied("a", "b"), asked("a"), asked("b"))
    after = numbered(completed("a"), resolved("a"), start=4)
    assert followed(monkeypatch, Told([*before, *after]), after=3) == after


def test_following_awaits_the_answer_when_it_begins_behind_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    before = numbered(replied("a"), asked("a"))
    after = numbered(completed("a"), resolved("a"), ENDED, start=3)
    assert followed(monkeypatch, Told(before, after), after=2) == after


def test_following_works_when_the_events_before_have_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(run_id: RunId, after: int) -> list[Event]:
        return numbered(ENDED, start=9) if after == 8 else []

    async def collect() -> list[Event | None]:
        return [event async for event in follow(RUN_ID, 8, Progress())]

    monkeypatch.setattr(subject, "read_events", read)
    assert asyncio.run(asyncio.wait_for(collect(), 2)) == numbered(ENDED, start=9)


def test_sign_of_life_is_given_when_nothing_happens_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_KEEP_ALIVE_S", 0)
    monkeypatch.setattr(subject, "load_run", lambda key: a_run())
    told = followed(monkeypatch, Told([], [], numbered(ENDED)))
    assert told[0] is None
    assert told[-1:] == numbered(ENDED)


@pytest.mark.parametrize("standing", [{"status": "failed"}, {"status": "completed"}, {"pending": ("q",)}])
def test_following_ends_when_the_record_is_at_rest_and_no_event_says_so(
    monkeypatch: pytest.MonkeyPatch, standing: dict[str, Any]
) -> None:
    monkeypatch.setattr(subject, "_KEEP_ALIVE_S", 0)
    monkeypatch.setattr(subject, "load_run", lambda key: a_run(**standing))
    assert followed(monkeypatch, Told(numbered(replied("a")))) == numbered(replied("a"))


class Clock:
    """Goes on only while somebody sleeps, and then by ten seconds. Stands for `time` and `asyncio`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += 10

    async def to_thread(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return function(*given, **named)


@pytest.mark.parametrize(("longest_s", "minutes"), [(None, 14), (subject.SILENT_S, 4.5)])
def test_run_that_never_ends_is_followed_for_its_time_with_signs_of_life(
    monkeypatch: pytest.MonkeyPatch, longest_s: float | None, minutes: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(subject, "time", clock)
    monkeypatch.setattr(subject, "asyncio", clock)
    monkeypatch.setattr(subject, "read_events", lambda run_id, after: [])
    monkeypatch.setattr(subject, "load_run", lambda key: a_run())
    began = clock.now_s

    async def collect() -> list[Event | None]:
        return [event async for event in follow(RUN_ID, 0, None, longest_s)]

    told = asyncio.run(collect())
    assert minutes * 60 <= clock.now_s - began < minutes * 60 + 20
    assert set(told) == {None}
    assert len(told) >= minutes * 60 // 30


def test_following_ends_before_the_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_LONGEST_S", 0.05)
    assert followed(monkeypatch, Told(numbered(replied("a")))) == numbered(replied("a"))


def planned(*ids: str) -> tuple[str, dict[str, Any]]:
    return "message.completed", {"turn": 1, "calls": [], "steps": [{"id": id_, "call_id": id_} for id_ in ids]}


def step_completed(id_: str) -> tuple[str, dict[str, Any]]:
    return "step.completed", {"id": id_, "title": "T", "call_id": id_, "status": "done", "text": "x"}


@pytest.mark.parametrize(
    ("events", "waits"),
    [
        ((planned("a", "b"), asked("a")), False),
        ((planned("a", "b"), asked("a"), step_completed("b")), True),
        ((planned("a"), asked("a"), step_completed("a")), False),
    ],
)
def test_run_waits_for_a_person_when_no_step_of_its_plan_goes_on_without(
    events: Sequence[tuple[str, dict[str, Any]]], waits: bool
) -> None:
    assert progress_after(*events).waits is waits
