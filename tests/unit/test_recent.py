"""What a process keeps of conversations: whoever reads with it reads what the record holds, and less of it."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepagent.messages import AssistantMessage, UserMessage
from stepagent.runs import CallKey, CallResult, Decision, Outcome, Run, RunStatus, SessionKey, StopReason, TurnRecord
from stepagent.store.calls import store_result
from stepagent.store.conversation import Part, load_history
from stepagent.store.recent import RecentHistory
from stepagent.store.runs import create_run
from stepagent.store.table import query
from stepagent.store.turns import claim_turn, store_turn
from stepagent.usage import Usage
from tests.builders import NOON, a_call, a_run
from tests.recorded import act
from tests.tables import empty_tables, tables_in_memory


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


class Session:
    """A session that grows as sessions do: turns of calls, results in any order, answers, further questions."""

    def __init__(self, name: str = "abc") -> None:
        self._begin(a_run(run_id=f"run_{name}_1"))

    def act(self, calls: int) -> None:
        self.turn += 1
        made = [a_call(call_id=f"call_{self.run.key.ordinal}_{self.turn}_{n}") for n in range(calls)]
        act(self.run, *made)
        self.open += [call.key for call in made]

    def finish(self, place: int) -> None:
        if self.open:
            key = self.open.pop(place % len(self.open))
            store_result(self.run.key, key, CallResult(text=f"of {key}", is_error=False, finished_at=NOON))

    def end(self) -> None:
        self.turn += 1
        decision = Decision(run_id=self.run.run_id, turn=self.turn, next="done")
        outcome = Outcome(RunStatus.COMPLETED, StopReason.ANSWERED, "Done.")
        record = TurnRecord(decision, AssistantMessage(text="Done."), (), Usage(), outcome)
        store_turn(self.run, claim_turn(self.run, self.turn, "claim").claim_id, record)
        self._begin(a_run(run_id=f"run_{self.run.key.session}_{self.run.key.ordinal + 1}"))

    def _begin(self, run: Run) -> None:
        self.run, self.turn = run, 0
        self.open: list[CallKey] = []  # calls without a result
        create_run(run, [UserMessage(text="Do it.")])


actions = st.lists(
    st.one_of(
        st.tuples(st.just("act"), st.integers(1, 4)),
        st.tuples(st.just("finish"), st.integers(0, 9)),
        st.tuples(st.just("end"), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 2)),
    ),
    max_size=40,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions, st.sampled_from([0, 500, 3_000, 10**6]))
def test_every_process_reads_what_the_record_holds(done: list[tuple[str, int]], most_chars: int) -> None:
    empty_tables()
    session, processes = Session(), [RecentHistory(most_chars) for _ in range(3)]
    for action, number in [*done, ("read", 0), ("read", 1), ("read", 2)]:
        match action:
            case "act":
                session.act(number)
            case "finish":
                session.finish(number)
            case "end":
                session.end()
            case "read":
                assert processes[number].load(session.run.key.session) == load_history(session.run.key.session)


@pytest.fixture
def items_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items each read of a conversation took."""
    empty_tables()
    counts: list[int] = []

    def counted(pk: str, prefix: str, after: str = "") -> list[dict[str, object]]:
        found = query(pk, prefix, after)
        counts.append(len(found))
        return found

    monkeypatch.setattr("stepagent.store.conversation.query", counted)
    return counts


def grow(session: Session, process: RecentHistory, turns: int, unfinished: int = 0) -> None:
    """Reads before each of so many turns of two calls; a call of the `unfinished` turn gets no result."""
    for turn in range(1, turns + 1):
        process.load(session.run.key.session)
        session.act(2)
        for _ in range(1 if turn == unfinished else 2):
            session.finish(-1)


def test_turn_reads_the_turn_before_it_and_no_more_when_all_calls_have_results(items_read: list[int]) -> None:
    grow(Session(), RecentHistory(), 8)
    assert items_read == [1, *[3] * 7]


def test_conversation_is_read_from_the_first_call_without_a_result(items_read: list[int]) -> None:
    grow(Session(), RecentHistory(), 6, unfinished=3)
    assert items_read == [1, 3, 3, 3, 5, 8]


def test_conversation_is_read_as_a_whole_when_it_is_too_long_to_be_kept(items_read: list[int]) -> None:
    grow(Session(), RecentHistory(100), 4)
    assert items_read == [1, 3, 7, 10]


def test_others_are_kept_when_one_conversation_is_too_long(items_read: list[int]) -> None:
    process, short, long = RecentHistory(1_500), Session("short"), Session("long")
    grow(long, process, 8)
    grow(short, process, 2)
    items_read.clear()
    for session in (long, short):
        process.load(session.run.key.session)
    assert items_read == [25, 3]


def test_no_turn_waits_long_when_thousands_of_conversations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    short = Part("M#1", (UserMessage(text="x" * 40),))
    monkeypatch.setattr("stepagent.store.recent.load_parts", lambda session, after: [] if after else [short])
    process = RecentHistory(2_000_000)
    for number in range(20_000):
        process.load(SessionKey(f"short{number}"))
    monkeypatch.setattr(
        "stepagent.store.recent.load_parts", lambda *_: [Part("M#1", (UserMessage(text="x" * 1_900_000),))]
    )
    began = time.process_time()
    process.load(SessionKey("long"))
    assert time.process_time() - began < 1


def test_conversations_that_were_read_last_are_kept_when_there_is_no_room_for_all(items_read: list[int]) -> None:
    process, first, second = RecentHistory(2_500), Session("first"), Session("second")
    for session in (first, second):
        grow(session, process, 3)
    items_read.clear()
    for session in (second, first):
        process.load(session.run.key.session)
    assert items_read == [3, 10]
