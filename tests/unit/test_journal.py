"""The event log: its writer, and the table that it writes to."""

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepagent.clock import now
from stepagent.journal import BATCH_CHARS, HOLD_S, Journal, shown
from stepagent.store import journal as store
from stepagent.store.journal import MAX_APPENDED, Entry, EventType, Position
from tests.builders import RUN_ID, a_run
from tests.journal_table import JournalTable
from tests.tables import empty_tables, tables_in_memory

USAGE: list[EventType] = ["usage"]


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> JournalTable:
    empty_tables()
    in_memory = JournalTable()
    monkeypatch.setattr(store, "dynamodb", lambda: in_memory)
    return in_memory


def test_events_are_numbered_from_one_in_order_when_one_writer_writes(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        for turn in range(50):
            journal.emit("turn.started", turn=turn)
    assert [(event.n, event.data["turn"]) for event in table.events] == [(n + 1, n) for n in range(50)]


def test_events_are_read_from_any_number(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        for turn in range(50):
            journal.emit("turn.started", turn=turn)
    everything = table.events
    assert [store.read_events(RUN_ID, after) for after in range(51)] == [everything[after:] for after in range(51)]


def test_numbers_have_no_gap_and_each_writer_keeps_its_order_when_several_write_at_once(table: JournalTable) -> None:
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


def test_event_follows_the_other_one_when_another_writer_was_quicker(table: JournalTable) -> None:
    def intrude() -> None:
        table.before_append = lambda: None
        table.write("usage")

    table.before_append = intrude
    with Journal(RUN_ID) as journal:
        journal.emit("turn.started", turn=1)
    assert table.types() == ["usage", "turn.started"]


def test_writer_catches_up_when_it_fell_far_behind(table: JournalTable) -> None:
    with Journal(RUN_ID) as behind:
        behind.emit("turn.started", turn=1)
        wait_for(lambda: table.appends == 1)
        table.write(*USAGE * 200)
        behind.emit("turn.started", turn=2)
    assert table.appends < 220
    assert [event.n for event in table.events] == list(range(1, 203))


def test_run_starts_with_event_one_when_it_is_created(table: JournalTable) -> None:
    table.client.put_item(**store.first_event(a_run())["Put"])
    with Journal(RUN_ID) as journal:
        journal.emit("turn.started", turn=1)
    assert [(event.n, event.type) for event in table.events] == [(1, "run.started"), (2, "turn.started")]
    assert store.last_event(RUN_ID) == table.events[-1]


def test_run_has_no_last_event_when_it_has_none(table: JournalTable) -> None:
    assert (store.last_event(RUN_ID), table.events) == (None, [])


@pytest.mark.parametrize("last", ["run.completed", "run.failed", "run.cancelled"])
def test_nothing_is_written_when_the_run_has_had_its_last_event(table: JournalTable, last: EventType) -> None:
    with Journal(RUN_ID) as journal:
        journal.emit(last)
        journal.emit("usage")
    with Journal(RUN_ID) as late:
        late.text("late")
        late.emit("run.failed")
    assert table.types() == [last]


def test_run_ends_once_when_two_writers_end_it_at_the_same_time(table: JournalTable) -> None:
    def end_first() -> None:
        table.before_append = lambda: None
        table.write("run.completed")

    table.before_append = end_first
    with Journal(RUN_ID) as journal:
        journal.emit("run.failed")
        journal.emit("usage")
    assert table.types() == ["run.completed"]


def test_events_that_are_there_cost_one_request_when_they_are_written(table: JournalTable) -> None:
    journal = Journal(RUN_ID)
    for _ in range(MAX_APPENDED):
        journal.emit("usage")
    with journal:
        pass
    assert (len(table.events), table.appends) == (MAX_APPENDED, 1)


def test_start_and_end_of_a_tool_cost_one_request_when_it_is_quick(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        journal.emit("tool.started", id="call_1_1_0")
        journal.emit("tool.completed", id="call_1_1_0")
    assert (table.types(), table.appends) == (["tool.started", "tool.completed"], 1)


def test_start_of_a_tool_is_told_when_it_takes_long(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        journal.emit("tool.started", id="call_1_1_0")
        began = time.monotonic()
        wait_for(lambda: bool(table.events))
        assert time.monotonic() - began < HOLD_S + 1
        assert table.types() == ["tool.started"]


def test_event_has_the_time_of_what_it_tells_when_it_is_written_later(table: JournalTable) -> None:
    journal = Journal(RUN_ID)
    journal.emit("usage")
    emitted_before = now()
    time.sleep(0.02)
    with journal:
        pass
    assert table.events[0].at <= emitted_before.isoformat(timespec="milliseconds")


def test_item_stays_below_its_limit_when_events_are_long(table: JournalTable) -> None:
    text = "\U0001f600" * 8000  # the longest that an event holds: a question to a person
    with Journal(RUN_ID) as journal:
        for _ in range(20):
            journal.emit("interaction.required", description=text)
    assert [event.data["description"] for event in table.events] == [text] * 20
    assert max(len(json.dumps(page, ensure_ascii=False).encode()) for page in table.pages) < 400_000


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 2
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)


def test_fragments_become_few_events_when_they_come_quickly(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        for _ in range(50):
            journal.text("word ")
    assert "".join(table.said()) == "word " * 50
    assert len(table.events) <= 3


def test_first_fragment_is_written_at_once_when_nothing_was_written_before(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        journal.text("A")
        wait_for(lambda: bool(table.events))
        assert table.said() == ["A"]


def test_text_and_reasoning_stay_apart_and_in_order_when_they_alternate(table: JournalTable) -> None:
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


def test_event_between_fragments_keeps_its_place_when_fragments_are_joined(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        journal.text("A")
        journal.text("B")
        journal.emit("message.completed", turn=1, calls=[])
        journal.text("C")
    assert table.types()[-2:] == ["message.completed", "message.delta"]
    assert "".join(table.said()[:-1]) == "AB"


def test_long_text_is_split_when_it_comes_in_one_piece(table: JournalTable) -> None:
    text = "".join(chr(0x4E00 + number % 1000) for number in range(10 * BATCH_CHARS + 1))
    with Journal(RUN_ID) as journal:
        journal.text(text)
    assert "".join(table.said()) == text
    assert max(map(len, table.said())) <= 2 * BATCH_CHARS


def test_empty_text_is_no_event_when_it_is_said(table: JournalTable) -> None:
    with Journal(RUN_ID) as journal:
        journal.text("")
        journal.reasoning("")
    assert table.events == []


def test_error_of_the_table_is_raised_when_the_block_is_left(table: JournalTable) -> None:
    table.before_append = fail
    with pytest.raises(OSError, match="table is away"), Journal(RUN_ID) as journal:
        journal.emit("usage")


def break_off_after(write: Callable[[Journal], None]) -> None:
    with Journal(RUN_ID) as journal:
        write(journal)
        raise KeyError("it broke")


def test_error_of_the_block_wins_when_the_table_fails_too(table: JournalTable) -> None:
    table.before_append = fail
    with pytest.raises(KeyError):
        break_off_after(lambda journal: journal.emit("usage"))


def test_events_before_an_error_are_written_when_the_block_raises(table: JournalTable) -> None:
    with pytest.raises(KeyError):
        break_off_after(lambda journal: journal.text("said"))
    assert table.said() == ["said"]


FRAGMENTS = st.tuples(st.sampled_from(["text", "reasoning"]), st.text(max_size=5) | st.just("x" * 2500))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(FRAGMENTS, max_size=20))
def test_journal_holds_what_was_said_in_order_whatever_it_was(
    table: JournalTable, fragments: list[tuple[str, str]]
) -> None:
    empty_tables()
    with Journal(RUN_ID) as journal:
        for kind, fragment in fragments:
            (journal.text if kind == "text" else journal.reasoning)(fragment)
    assert spoken(fragments) == spoken([next(iter(event.data.items())) for event in table.events])


def spoken(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each character with its kind, so that how the text was cut does not count."""
    return [(kind, character) for kind, text in pieces for character in text]


def fail() -> None:
    raise OSError("the table is away")


def test_text_is_shown_whole_when_it_is_short() -> None:
    assert shown("x" * 2000) == "x" * 2000


def test_text_is_shown_with_its_length_when_it_is_cut() -> None:
    assert shown("x" * 2001) == "x" * 2000 + "… (2001 characters)"


def entries(*keys: str) -> list[Entry]:
    return [Entry(key, "usage", now(), {}) for key in keys]


def test_repeated_request_writes_once_when_its_answer_was_lost(table: JournalTable) -> None:
    request = entries("a", "b")
    outcomes = [store.append(RUN_ID, 1, request) for _ in range(2)]
    assert (outcomes, len(table.events)) == ([None, None], 2)


def test_append_tells_where_the_next_page_begins_when_a_page_is_full(table: JournalTable) -> None:
    table.write(*USAGE * 20)
    (full, rest) = sorted(len(page["events"]["L"]) for page in table.pages)[::-1]
    assert store.append(RUN_ID, 1, entries("late")) == Position(full + 1, ended=False)
    assert full + rest == 20


def test_append_tells_that_the_run_has_ended_when_it_has(table: JournalTable) -> None:
    table.write("run.completed")
    elsewhere = store.append(RUN_ID, 1, entries("late"))
    assert elsewhere
    assert elsewhere.ended
