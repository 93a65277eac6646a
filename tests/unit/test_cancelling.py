"""Runs that are cancelled, or closed by force, while something else happens to them."""

from collections.abc import Callable, Iterator

import pytest

from stepagent import asking, cancelling, delivering
from stepagent.answering import list_interactions
from stepagent.asking import ask
from stepagent.cancelling import cancel_run
from stepagent.clock import now
from stepagent.ending import finalize
from stepagent.errors import StepAgentError
from stepagent.runs import CallStatus
from stepagent.store.calls import load_call
from stepagent.store.journal import read_events
from stepagent.store.runs import require_run
from stepagent.tools.execution import Invocation, execute
from tests.builders import OWNER, RUN_ID, a_call, a_run, a_tool
from tests.disturbance import Disturbance, crash
from tests.recorded import begin
from tests.tables import empty_tables, tables_in_memory

ASK = a_tool("ask", kind="interactive", target="", parameters={"type": "object"})
QUESTION = a_call(name="ask", kind="interactive", arguments={"question": "Which?"})
SEARCH = a_call(1)


@pytest.fixture(scope="module")
def tables() -> Iterator[Disturbance]:
    with tables_in_memory():
        yield Disturbance()


@pytest.fixture
def disturbance(tables: Disturbance, monkeypatch: pytest.MonkeyPatch) -> Disturbance:
    for module in (asking, delivering):
        monkeypatch.setattr(module, "resume_execution", lambda token, next_kind=None: True)
    monkeypatch.setattr(cancelling, "stop_execution", lambda run_id: None)
    return tables


def begun() -> None:
    """A run whose first turn asks a person and searches, in a record that holds nothing else."""
    empty_tables()
    begin(a_run(ASK, a_tool(), created_at=now()), QUESTION, SEARCH)


def cancel() -> None:
    cancel_run(RUN_ID)


def abort() -> None:
    finalize(RUN_ID, "ABORTED")


@pytest.fixture(params=[cancel, abort])
def end_run(request: pytest.FixtureRequest) -> Callable[[], None]:
    way: Callable[[], None] = request.param
    return way


def ask_person() -> None:
    try:
        ask(RUN_ID, QUESTION.call_id, "token")
    except StepAgentError:  # the run has ended; the state machine is stopped
        return


def search() -> None:
    execute(RUN_ID, SEARCH.call_id, found)


def found(invocation: Invocation) -> str:
    return "found"


def test_no_question_stays_open_when_it_is_asked_while_its_run_ends(
    disturbance: Disturbance, end_run: Callable[[], None]
) -> None:
    for _ in disturbance.everywhere(ask_person, begun, end_run):
        assert (list_interactions(OWNER), require_run(RUN_ID).pending) == ([], ())


def test_no_question_stays_open_when_its_run_ends_while_it_is_asked(
    disturbance: Disturbance, end_run: Callable[[], None]
) -> None:
    for _ in disturbance.everywhere(end_run, begun, ask_person):
        end_run()
        assert (list_interactions(OWNER), require_run(RUN_ID).pending) == ([], ())


def test_every_call_has_one_result_when_the_canceller_dies_anywhere(disturbance: Disturbance) -> None:
    for _ in disturbance.everywhere(crash, begun, cancel):
        calls = [load_call(a_run().key, call.key).call for call in (QUESTION, SEARCH)]
        assert [call.status for call in calls] == [CallStatus.DONE] * 2
        assert [event.type for event in read_events(RUN_ID, 0)][-1] == "run.cancelled"


def test_call_says_what_it_found_or_that_it_was_cancelled_when_both_come_together(disturbance: Disturbance) -> None:
    for _ in disturbance.everywhere(search, begun, cancel):
        result = load_call(a_run().key, SEARCH.key).call.result
        assert result
        assert result.text == "found" or result.text.startswith(
            ("Not run", "The task was cancelled while", "Interrupted")  # the claim may be the canceller's
        )


def test_call_that_says_it_was_not_run_was_not_run(disturbance: Disturbance) -> None:
    runs: list[str] = []

    def note(invocation: Invocation) -> str:
        runs.append(invocation.call.call_id)
        return "found"

    def begun_without_runs() -> None:
        runs.clear()
        begun()

    for _ in disturbance.everywhere(cancel, begun_without_runs, lambda: execute(RUN_ID, SEARCH.call_id, note)):
        result = load_call(a_run().key, SEARCH.key).call.result
        assert result
        assert not (runs and result.text.startswith("Not run"))
