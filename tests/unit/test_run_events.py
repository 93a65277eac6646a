"""A run's journal as server-sent events, over a journal in memory."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from starlette.requests import Request

from stepagent.api import events as subject
from stepagent.api import follow as following
from stepagent.api.events import EventsQuery, find_events, read_place, stream_events
from stepagent.clock import now
from stepagent.errors import Expired, InvalidRequest, NotFound
from stepagent.runs import Run, RunStatus
from stepagent.store.clients import dynamodb
from stepagent.store.journal import MAX_APPENDED, Entry, EventType, append, find_position, read_events
from tests.builders import OWNER, RUN_ID, a_run
from tests.functions import load
from tests.journal_table import JournalTable
from tests.tables import empty_tables, tables_in_memory

_ALL = re.compile(rb"id: [^\n]*\nevent: [^\n]*\ndata: [^\n]*\n\n")

OLD = a_run(created_at=now() - timedelta(days=40))


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def _quick(_tables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    empty_tables()
    stands(monkeypatch, a_run())
    monkeypatch.setattr(following, "_QUICK_S", 0.0001)
    monkeypatch.setattr(following, "_SLOW_S", 0.001)
    monkeypatch.setattr(subject, "_SETTLES_S", 0)


def stands(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Makes this the run as the record has it."""

    def read(run_id: str, principal: str) -> Run:
        if principal != run.owner:
            raise NotFound("There is no such run.")
        return run

    monkeypatch.setattr(subject, "read_run", read)
    monkeypatch.setattr(following, "load_run", lambda key: run)


def write(type_: EventType, number: int = 0, **data: Any) -> None:
    put(Entry(f"key-{type_}-{number}", type_, now(), data))


def put(*entries: Entry) -> None:
    while position := append(RUN_ID, find_position(RUN_ID).page, entries):
        assert not position.ended


def written(deltas: int = 30) -> None:
    """A whole run, with texts that look like the ends of events."""
    text = "ü\n\nid: 7\nevent: x\r\n\u2028 " * 20
    said = [Entry(f"said-{number}", "message.delta", now(), {"text": f"{number} {text}"}) for number in range(deltas)]
    write("run.started")
    write("turn.started", turn=1, attempt=1)
    for start in range(0, deltas, MAX_APPENDED):
        put(*said[start : start + MAX_APPENDED])
    write("run.completed", stop_reason="answered")


async def collected(parts: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in parts])


def stream(after: int = 0) -> bytes:
    run = find_events(RUN_ID, OWNER, after)
    return asyncio.run(asyncio.wait_for(collected(stream_events(run, after)), 5)) if run else b""


def complete(content: bytes) -> bytes:
    """The events whose end has come, in their bytes."""
    return b"".join(_ALL.findall(content))


def last_id(content: bytes) -> int:
    return int(re.findall(rb"^id: (\d+)$", content, re.MULTILINE)[-1]) if content else 0


def test_every_event_is_sent_with_its_number_and_type() -> None:
    written(deltas=2)
    blocks = [block.decode().split("\n") for block in complete(stream()).split(b"\n\n")[:-1]]
    assert [block[0] for block in blocks] == [f"id: {n}" for n in range(1, 6)]
    assert [block[1] for block in blocks][::4] == ["event: run.started", "event: run.completed"]
    told = json.loads(blocks[4][2].removeprefix("data: "))
    assert (told["n"], told["type"], told["data"]) == (5, "run.completed", {"stop_reason": "answered"})


def test_events_are_byte_equal_to_an_uncut_stream_when_it_is_cut_at_twenty_random_bytes() -> None:
    written()
    uncut, chance = stream(), random.Random(20)
    for place in chance.sample(range(len(uncut)), 20):
        read = complete(uncut[:place])
        assert read + complete(stream(last_id(read))) == complete(uncut), f"cut at byte {place}"


def test_events_are_byte_equal_to_an_uncut_stream_when_it_is_cut_again_and_again() -> None:
    written()
    uncut, chance, read = stream(), random.Random(7), b""
    while last_id(read) < last_id(uncut):
        rest = stream(last_id(read))
        read += complete(rest[: chance.randrange(4_000)])
    assert read == complete(uncut)


def test_every_place_of_a_stream_has_what_follows_it() -> None:
    written(deltas=3)
    events = _ALL.findall(stream())
    assert [complete(stream(after)) for after in range(len(events) + 1)] == [
        b"".join(events[after:]) for after in range(len(events) + 1)
    ]


def test_nothing_will_follow_when_the_last_event_was_read() -> None:
    written(deltas=1)
    assert find_events(RUN_ID, OWNER, 4) is None


def test_stream_stays_open_when_the_run_waits_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    stands(monkeypatch, a_run(status=RunStatus.WAITING, pending=["q1"]))
    monkeypatch.setattr(following, "_KEEP_ALIVE_S", 0.001)
    write("run.started")
    write("message.completed", calls=[{"id": "a", "name": "ask"}])
    write("interaction.required", call_id="a", interaction_id="q1", description="Which?")

    async def follow_then_answer() -> bytes:
        reading = asyncio.create_task(collected(stream_events(a_run(), 0)))
        await asyncio.sleep(0.1)
        assert not reading.done()
        await asyncio.to_thread(answered_and_ended)
        return await reading

    def answered_and_ended() -> None:
        write("interaction.resolved", call_id="a", interaction_id="q1", status="answered")
        write("run.completed")

    content = asyncio.run(asyncio.wait_for(follow_then_answer(), 5))
    assert last_id(complete(content)) == 5


def test_stream_ends_by_itself_before_its_function_does_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LONGEST_S", 0.02)
    write("run.started")
    content = stream()
    assert complete(content)
    assert content.endswith(b"\n\n: connect again for what follows\n\n")


def test_stream_ends_in_order_when_the_journal_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run_id: str, after: int) -> None:
        raise RuntimeError("gone")

    monkeypatch.setattr(following, "read_events", broken)
    assert asyncio.run(collected(stream_events(a_run(), 0))).endswith(b": connect again for what follows\n\n")


def test_first_byte_comes_before_the_first_event() -> None:
    async def first() -> bytes:
        return await anext(stream_events(a_run(), 0))

    assert asyncio.run(first()) == b"retry: 1000\n\n"


def test_events_are_gone_when_the_journal_has_expired() -> None:
    with pytest.raises(Expired) as gone:
        find_events(RUN_ID, OWNER, 0)
    assert (gone.value.http_status, gone.value.error_code) == (410, "events_expired")
    assert f"/v1/runs/{RUN_ID}/messages" in gone.value.message


def test_events_are_gone_when_the_first_pages_have_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    stands(monkeypatch, OLD)
    written()
    pages = JournalTable().pages
    assert len(pages) > 2
    first = min(int(page["n"]["N"]) for page in pages)
    dynamodb().delete_item(TableName="journal-in-memory", Key={"run_id": {"S": RUN_ID}, "n": {"N": str(first)}})
    with pytest.raises(Expired):
        find_events(RUN_ID, OWNER, 0)
    assert find_events(RUN_ID, OWNER, 32)


def test_events_are_not_gone_when_a_read_lags_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    stands(monkeypatch, OLD)
    written(deltas=1)
    reads = iter([[], [], read_events(RUN_ID, 0)])
    monkeypatch.setattr(subject, "read_events", lambda run_id, after: next(reads))
    assert find_events(RUN_ID, OWNER, 0)


def test_young_run_is_followed_without_a_look_at_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def unused(run_id: str, after: int) -> None:
        raise AssertionError("they are read when they are sent")

    written(deltas=1)
    monkeypatch.setattr(subject, "read_events", unused)
    assert find_events(RUN_ID, OWNER, 0)


@pytest.mark.parametrize("later_s", [0, 3600])
def test_run_that_ended_without_telling_is_over_after_a_while(monkeypatch: pytest.MonkeyPatch, later_s: int) -> None:
    stands(monkeypatch, a_run(status=RunStatus.FAILED, ended_at=now() - timedelta(seconds=later_s)))
    write("run.started")
    assert (find_events(RUN_ID, OWNER, 1) is None) == bool(later_s)


def test_place_is_refused_when_the_run_has_not_come_to_it() -> None:
    written(deltas=1)
    with pytest.raises(InvalidRequest):
        find_events(RUN_ID, OWNER, 5)


def test_events_of_another_owner_are_not_found() -> None:
    written(deltas=1)
    with pytest.raises(NotFound):
        find_events(RUN_ID, type(OWNER)("bob"), 0)


@pytest.mark.parametrize(
    ("header", "after", "place"), [(None, "0", 0), ("", "7", 7), ("12", "7", 12), (None, "12", 12), ("0", "7", 0)]
)
def test_place_is_that_of_the_header_before_that_of_the_query(header: str | None, after: str, place: int) -> None:
    assert read_place(header, EventsQuery(after=after)) == place


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "٣", "9" * 13, " 1"])
def test_place_is_refused_when_it_is_no_number(text: str) -> None:
    for header, query in ((text, EventsQuery()), (None, EventsQuery(after=text))):
        with pytest.raises(InvalidRequest):
            read_place(header, query)


def test_answer_is_204_when_nothing_will_follow() -> None:
    written(deltas=1)
    context = json.dumps({"authorizer": {"principalId": OWNER}}).encode()
    scope = {
        "type": "http",
        "method": "GET",
        "path_params": {"run_id": RUN_ID},
        "query_string": b"",
        "headers": [(b"x-amzn-request-context", context), (b"last-event-id", b"4")],
    }
    answer = asyncio.run(load("stream", "routes_events").follow_run(Request(scope)))
    assert (answer.status_code, answer.body) == (204, b"")
