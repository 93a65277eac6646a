"""Writers of one journal that meet, lose answers and die, in every order that chance finds."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepagent.journal import Journal
from stepagent.store import journal as store
from stepagent.store.journal import LAST_EVENTS, Event, EventType
from tests.builders import RUN_ID
from tests.journal_table import JournalTable
from tests.tables import empty_tables, tables_in_memory

Fate = Literal["answered", "answer lost", "died before", "died after"]


class Died(Exception):
    """The writer's process is gone."""


class Step(NamedTuple):
    """Which of the writers that stand before a request makes it, and what comes of it."""

    writer: int
    fate: Fate


class Stage(JournalTable):
    """A table that a writer asks only when its turn has come."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = threading.Condition()
        self._waiting: set[str] = set()  # writers that stand before a request
        self._fates: dict[str, Fate] = {}  # of the one that may make it
        self.writers: set[str] = set()  # those that live

    def update_item(self, **request: Any) -> Any:
        return self._staged(lambda: super(Stage, self).update_item(**request))

    def query(self, **request: Any) -> Any:
        return self._staged(lambda: super(Stage, self).query(**request))

    def play(self, steps: Iterator[Step]) -> Iterator[None]:
        """Lets one writer after the other make a request; comes back after each, until no writer is left."""
        while waiting := self._wait_for_all():
            step = next(steps)
            self._let(waiting[step.writer % len(waiting)], step.fate)
            self._wait_for_all()
            yield

    def leave(self, writer: str) -> None:
        with self._moved:
            self.writers.discard(writer)
            self._moved.notify_all()

    def _staged(self, ask: Callable[[], Any]) -> Any:
        writer = threading.current_thread().name
        with self._moved:
            self._waiting.add(writer)
            self._moved.notify_all()
            assert self._moved.wait_for(lambda: writer in self._fates, 5)
            fate = self._fates.pop(writer)
        if fate == "died before":
            raise Died
        if fate == "answer lost":  # the client repeats the request
            with suppress(self.exceptions.ConditionalCheckFailedException):
                ask()
        answer = ask()
        if fate == "died after":
            raise Died
        return answer

    def _let(self, writer: str, fate: Fate) -> None:
        with self._moved:
            self._waiting.remove(writer)
            self._fates[writer] = fate
            self._moved.notify_all()

    def _wait_for_all(self) -> list[str]:
        """The writers that live, once each of them stands before a request."""
        with self._moved:
            assert self._moved.wait_for(lambda: self._waiting == self.writers, 5)
            return sorted(self.writers)


class Writer:
    """A function that emits its events and waits until they are written."""

    def __init__(self, stage: Stage, number: int, types: Sequence[EventType]) -> None:
        self.number = number
        self.types = types
        self.died = False
        self._stage = stage
        self._journal = Journal(RUN_ID)
        self._journal._thread.name = f"writer-{number}"
        for position, type_ in enumerate(types):
            self._journal.emit(type_, writer=number, position=position)
        self._thread = threading.Thread(target=self._write)
        stage.writers.add(f"writer-{number}")

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _write(self) -> None:
        try:
            with self._journal:
                pass
        except Died:
            self.died = True
        finally:
            self._stage.leave(f"writer-{self.number}")


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(store, "_FULL", 1500)  # three events a page, so that writers meet where one ends
    staged = Stage()
    monkeypatch.setattr(store, "dynamodb", lambda: staged)
    return staged


EVENTS: st.SearchStrategy[list[EventType]] = st.lists(
    st.sampled_from(["usage", "usage", "usage", "turn.started", "run.completed", "run.failed"]), min_size=1, max_size=6
)
FATES: st.SearchStrategy[Fate] = st.sampled_from(
    ["answered", "answered", "answered", "answered", "answer lost", "died before", "died after"]
)
STEPS = st.lists(st.builds(Step, st.integers(0, 3), FATES), min_size=1, max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(st.lists(EVENTS, min_size=1, max_size=4), STEPS)
def test_journal_keeps_its_promises_when_writers_meet_and_die(
    stage: Stage, emitted: list[list[EventType]], steps: list[Step]
) -> None:
    empty_tables()
    writers = [Writer(stage, number, types) for number, types in enumerate(emitted)]
    for writer in writers:
        writer.start()
    seen: list[Event] = []
    for request, _ in enumerate(stage.play(itertools.cycle(steps))):
        assert request < 200, "somebody tries for ever"
        read = stage.events
        assert read[: len(seen)] == seen, "what a reader has seen has changed"
        assert read == seen + store.read_events(RUN_ID, len(seen))
        seen = read
    for writer in writers:
        writer.join()
    check(seen, writers)


def check(events: Sequence[Event], writers: Sequence[Writer]) -> None:
    assert [event.n for event in events] == list(range(1, len(events) + 1)), "a gap"
    ended = [event.type in LAST_EVENTS for event in events]
    assert not any(ended[:-1]), "something stands behind the last event"
    for writer in writers:
        written = [event.data["position"] for event in events if event.data["writer"] == writer.number]
        assert written == list(range(len(written))), "out of order, twice, or not at all"
        if not writer.died and not any(ended):
            assert len(written) == len(writer.types), "an event is lost"
        if not writer.died and LAST_EVENTS & set(writer.types):
            assert any(ended), "nobody hears that the run has ended"
