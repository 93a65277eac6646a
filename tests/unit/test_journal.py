"""The event log's writer, over a table in memory that refuses a taken number as DynamoDB does."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepagent import journal as subject
from stepagent.journal import BATCH_CHARS, Journal, shown
from stepagent.runs import RunId
from stepagent.store import journal as store
from stepagent.store.journal import Event, EventType
from tests.builders import RUN_ID


class Table:
    """The journal's table in memory. Stands for `stepagent.store.journal`, as far as a writer uses it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.before_put: Callable[[int], None] = lambda n: None
        self._lock = threading.Lock()

    def put_event(self, run_id: RunId, n: int, type_: EventType, data: Mapping[str, Any]) -> Event | None:
        self.before_put(n)
        with self._lock:
            if n <= len(self.events):
                return self.events[n - 1]
            assert n == len(self.events) + 1, "a gap"
            self.events.append(Event(n, type_, "", json.loads(json.dumps(data))))
        return None

    def last_event(self, run_id: RunId) -> Event | None:
        return self.events[-1] if self.events else None

    def said(self, kind: str = "text") -> list[str]:
        return [event.data[kind] for event in self.events if kind in event.data and event.type == "message.delta"]

    def types(self) -> list[str]:
        return [event.type for event in self.events]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    in_memory = Table()
    monkeypatch.setattr(subject, "table", in_memory)
    return in_memory


def test_events_are_numbered_from_one_in_order_when_one_writer_writes(table: Table) -> None:
    with Journal(RUN_ID) as journal:
        for turn in range(5):
            journal.emit("turn.started", turn=turn)
    assert [(event.n, event.data["turn"]) for event in table.events] == [(n + 1, n) for n in range(5)]


def test_numbers_have_no_gap_and_each_writer_keeps_its_order_when_several_write_at_once(table: Table) -> None:
    def write(writer: int) -> None:
        with Journal(RUN_ID) as journal:
            for number in range(20):
                journal.emit("tool.started", writer=writer, number=number)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.n for event in table.events] == list(range(1, 101))
    for writer in range(5):
        numbers = [event.data["number"] for event in table.events if event.data["writer"] == writer]
        assert numbers == list(range(20))


def test_event_takes_the_next_number_when_another_writer_took_its_own(table: Table) -> None:
    def intrude(n: int) -> None:
        table.before_put = lambda n: None
        table.put_event(RUN_ID, n, "usage", {})

    table.before_put = intrude
    with Journal(RUN_ID) as journal:
        journal.emit("turn.started", turn=1)
    assert table.types() == ["usage", "turn.started"]


def test_writer_catches_up_when_it_fell_far_behind(table: Table) -> None:
    with Journal(RUN_ID) as behind:
        behind.emit("turn.started", turn=1)
        while not table.events:
            time.sleep(0.001)
        for n in range(2, 200):
            table.put_event(RUN_ID, n, "usage", {})
        tries: list[int] = []
        table.before_put = tries.append
        behind.emit("turn.started", turn=2)
    assert (table.events[-1].data, len(tries) < 10) == ({"turn": 2}, True)


@pytest.mark.parametrize("last", ["run.completed", "run.failed", "run.cancelled"])
def test_nothing_is_written_when_the_run_has_had_its_last_event(table: Table, last: EventType) -> None:
    with Journal(RUN_ID) as journal:
        journal.emit(last)
        journal.emit("usage")
    with Journal(RUN_ID) as late:
        late.text("late")
        late.emit("run.failed")
    assert table.types() == [last]


def test_run_ends_once_when_two_writers_end_it_at_the_same_time(table: Table) -> None:
    def end_first(n: int) -> None:
        table.before_put = lambda n: None
        table.put_event(RUN_ID, n, "run.completed", {})

    table.before_put = end_first
    with Journal(RUN_ID) as journal:
        journal.emit("run.failed")
        journal.emit("usage")
    assert table.types() == ["run.completed"]


def test_fragments_become_few_events_when_they_come_quickly(table: Table) -> None:
    with Journal(RUN_ID) as journal:
        for _ in range(50):
            journal.text("word ")
    assert "".join(table.said()) == "word " * 50
    assert len(table.events) <= 3


def test_first_fragment_is_written_at_once_when_nothing_was_written_before(table: Table) -> None:
    with Journal(RUN_ID) as journal:
        journal.text("A")
        deadline = time.monotonic() + 1
        while not table.events and time.monotonic() < deadline:
            time.sleep(0.001)
        assert table.said() == ["A"]


def test_text_and_reasoning_stay_apart_and_in_order_when_they_alternate(table: Table) -> None:
    with Journal(RUN_ID) as journal:
        journal.reasoning("hm")
        journal.text("A")
        journal.reasoning("so")
        journal.text("B")
    assert [event.data for event in table.events] == [
        {"reasoning": "hm"},
        {"text": "A"},
        {"reasoning": "so"},
        {"text": "B"},
    ]


def test_event_between_fragments_keeps_its_place_when_fragments_are_joined(table: Table) -> None:
    with Journal(RUN_ID) as journal:
        journal.text("A")
        journal.text("B")
        journal.emit("message.completed", turn=1, calls=[])
        journal.text("C")
    assert table.types()[-2:] == ["message.completed", "message.delta"]
    assert "".join(table.said()[:-1]) == "AB"


def test_long_text_is_split_when_it_comes_in_one_piece(table: Table) -> None:
    text = "".join(chr(0x4E00 + number % 1000) for number in range(10 * BATCH_CHARS + 1))
    with Journal(RUN_ID) as journal:
        journal.text(text)
    assert "".join(table.said()) == text
    assert max(map(len, table.said())) <= 2 * BATCH_CHARS


def test_empty_text_is_no_event_when_it_is_said(table: Table) -> None:
    with Journal(RUN_ID) as journal:
        journal.text("")
        journal.reasoning("")
    assert table.events == []


def test_error_of_the_table_is_raised_when_the_block_is_left(table: Table) -> None:
    table.before_put = fail
    with pytest.raises(OSError, match="table is away"), Journal(RUN_ID) as journal:
        journal.emit("usage")


def break_off_after(write: Callable[[Journal], None]) -> None:
    with Journal(RUN_ID) as journal:
        write(journal)
        raise KeyError("it broke")


def test_error_of_the_block_wins_when_the_table_fails_too(table: Table) -> None:
    table.before_put = fail
    with pytest.raises(KeyError):
        break_off_after(lambda journal: journal.emit("usage"))


def test_events_before_an_error_are_written_when_the_block_raises(table: Table) -> None:
    with pytest.raises(KeyError):
        break_off_after(lambda journal: journal.text("said"))
    assert table.said() == ["said"]


FRAGMENTS = st.tuples(st.sampled_from(["text", "reasoning"]), st.text(max_size=5) | st.just("x" * 2500))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(FRAGMENTS, max_size=20))
def test_journal_holds_what_was_said_in_order_whatever_it_was(table: Table, fragments: list[tuple[str, str]]) -> None:
    table.events.clear()
    with Journal(RUN_ID) as journal:
        for kind, fragment in fragments:
            (journal.text if kind == "text" else journal.reasoning)(fragment)
    assert spoken(fragments) == spoken([next(iter(event.data.items())) for event in table.events])


def spoken(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each character with its kind, so that how the text was cut does not count."""
    return [(kind, character) for kind, text in pieces for character in text]


def fail(n: int) -> None:
    raise OSError("the table is away")


def test_text_is_shown_whole_when_it_is_short() -> None:
    assert shown("x" * 2000) == "x" * 2000


def test_text_is_shown_with_its_length_when_it_is_cut() -> None:
    assert shown("x" * 2001) == "x" * 2000 + "… (2001 characters)"


class LostAnswer:
    """A client whose request was carried out before it was refused. Stands for DynamoDB's, as far as an event needs."""

    class exceptions:  # noqa: N801  # as in the client
        ConditionalCheckFailedException = ClientError

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def put_item(self, **request: Any) -> None:
        item = request["Item"] | self.changes
        raise ClientError({"Error": {"Code": "ConditionalCheckFailedException"}, "Item": item}, "PutItem")  # type: ignore[typeddict-unknown-key]  # botocore types it not


@pytest.mark.parametrize(("changes", "written"), [({}, True), ({"data": {"S": '{"turn":9}'}}, False)])
def test_event_counts_as_written_when_the_item_that_is_there_is_its_own(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], written: bool
) -> None:
    monkeypatch.setattr(store, "dynamodb", lambda: LostAnswer(**changes))
    assert (store.put_event(RUN_ID, 2, "usage", {"turn": 1}) is None) is written
