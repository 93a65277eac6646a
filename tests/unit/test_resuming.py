"""Runs whose executions were lost, over the record's own conditions: whoever finds it, one takes the place."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent import asking, cancelling
from stepagent.answering import answer, read_interaction
from stepagent.api.beginning import session_key_of
from stepagent.asking import ask
from stepagent.cancelling import cancel_run
from stepagent.clock import now
from stepagent.delegation import start_workflow, sub_run_of
from stepagent.ending import execution_ended, finalize
from stepagent.errors import Expired, NotFound
from stepagent.executions import LOST, SERVICE_RESTART, ExecutionName, current_execution
from stepagent.resuming import MAX_RESUMPTIONS, ensure_execution
from stepagent.runs import Principal, RunKey, RunStatus
from stepagent.store.calls import load_call
from stepagent.store.questions import begin_delivery, store_answer
from stepagent.store.runs import count_execution, require_run
from stepagent.tools.execution import to_result
from tests.builders import OWNER, RUN_ID, a_call, a_run
from tests.recorded import act, begin
from tests.steps_in_record import DELEGATED, QUESTION, Service, asked, begun, install
from tests.tables import tables_in_memory


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service that runs nothing, and nothing in the record."""
    return install(monkeypatch)


def lose(service: Service, times: int) -> None:
    for _ in range(times):
        service.restart()
        ensure_execution(require_run(RUN_ID))


# ---- names


@given(st.text("abcdefghijklmnopqrstuvwxyz0234567", min_size=1, max_size=32), st.integers(0, 10**9), st.integers(1, 99))
def test_execution_name_leads_back_to_run_and_number_whatever_they_are(session: str, ordinal: int, number: int) -> None:
    name = ExecutionName(RunKey.parse(f"run_{session}_{ordinal}").run_id, number)
    assert ExecutionName.parse(str(name)) == name


def test_first_execution_bears_the_runs_id() -> None:
    assert str(ExecutionName(RUN_ID, 1)) == RUN_ID


def test_execution_name_is_short_enough_when_a_session_has_a_million_runs() -> None:
    run_id = RunKey(session_key_of(Principal("ann"), "s" * 128), 1_000_000).run_id
    assert len(str(ExecutionName(run_id, MAX_RESUMPTIONS + 1))) <= 80


@pytest.mark.parametrize("name", ["", "run_abc", "run_abc_1-", "run_abc_1-0", "run_abc_1-x", "run_abc_1-2-3", "x" * 99])
def test_name_is_no_executions_when_none_is_written_so(name: str) -> None:
    with pytest.raises(NotFound):
        ExecutionName.parse(name)


# ---- one in place of one that was lost


def test_run_keeps_its_execution_when_that_is_alive(service: Service) -> None:
    run = begun(service)
    assert ensure_execution(run) == run
    assert list(service.standing) == [RUN_ID]


def test_lost_execution_is_replaced_at_the_last_turn_that_was_decided(service: Service) -> None:
    run = begun(service)
    act(run, a_call(turn=2))
    service.restart()
    going_on = ensure_execution(require_run(RUN_ID))
    assert going_on is not None
    assert (going_on.executions, service.turns) == (2, {RUN_ID: 1, f"{RUN_ID}-2": 2})


def test_run_without_a_turn_begins_with_its_first_one(service: Service) -> None:
    begin(a_run(created_at=now()))
    service.start(require_run(RUN_ID))
    service.restart()
    ensure_execution(require_run(RUN_ID))
    assert service.turns[f"{RUN_ID}-2"] == 1


def test_one_execution_is_started_when_two_find_the_last_one_lost(service: Service) -> None:
    run = begun(service)
    service.restart()
    service.meanwhile = lambda: ensure_execution(run)
    going_on = ensure_execution(run)
    assert going_on is not None
    assert (going_on.executions, list(service.standing)) == (2, [RUN_ID, f"{RUN_ID}-2"])


def test_count_of_executions_never_goes_back_when_who_counts_has_an_old_look_at_the_run(service: Service) -> None:
    run = begun(service)
    lose(service, 2)
    assert count_execution(run) == require_run(RUN_ID)
    assert require_run(RUN_ID).executions == 3


def test_one_that_was_counted_is_started_when_who_counted_it_died(service: Service) -> None:
    counted = count_execution(begun(service))
    service.restart()
    execution_ended(RUN_ID, SERVICE_RESTART)
    assert counted.executions == require_run(RUN_ID).executions == 2
    assert service.standing[f"{RUN_ID}-2"] == "RUNNING"


def test_execution_that_was_not_started_yet_is_not_taken_for_lost(service: Service) -> None:
    begin(a_run(created_at=now()))
    ensure_execution(require_run(RUN_ID))
    assert service.standing == {RUN_ID: "RUNNING"}


@pytest.mark.parametrize("recorded_ago", [timedelta(hours=-1), timedelta(0), timedelta(hours=1), timedelta(days=365)])
def test_one_execution_begins_whatever_the_clocks_say_when_who_recorded_it_starts_it_late(
    service: Service, recorded_ago: timedelta
) -> None:
    begin(a_run(created_at=now() - recorded_ago))
    recorded = require_run(RUN_ID)
    ensure_execution(recorded)
    service.start(recorded)
    assert service.standing == {RUN_ID: "RUNNING"}


# ---- states that are entered several times, by retries or by two executions, and whose requests arrive in any order


@pytest.mark.parametrize("entered", [["first", "second"], ["second", "first"], ["first", "second", "first"]])
def test_every_state_goes_on_that_waits_for_an_agent(service: Service, entered: list[str]) -> None:
    run = begun(service, DELEGATED)
    service.waiting.update(entered)
    for token in entered:
        start_workflow(RUN_ID, DELEGATED.call_id, token)
    finalize(sub_run_of(run.key, DELEGATED.key), "ABORTED")
    assert service.waiting == set()


@pytest.mark.parametrize("entered", [["first", "second"], ["second", "first"], ["first", "second", "first"]])
@pytest.mark.parametrize("alive", [{"first"}, {"second"}, {"first", "second"}])
def test_every_state_goes_on_that_waits_for_a_person(service: Service, entered: list[str], alive: set[str]) -> None:
    begun(service)
    for token in entered:
        question = asked(service, token)
    service.waiting = set(alive)
    assert answer(question, OWNER, "blue").answer == "blue"
    assert service.waiting == set()
    assert require_run(RUN_ID).pending == ()


@pytest.mark.parametrize("status", ["ABORTED", "FAILED", "TIMED_OUT", "SUCCEEDED"])
def test_execution_that_came_to_an_end_of_its_own_is_not_replaced(service: Service, status: str) -> None:
    run = begun(service)
    service.standing[RUN_ID] = status
    assert ensure_execution(run) is None
    assert list(service.standing) == [RUN_ID]


def test_run_that_has_ended_gets_no_execution(service: Service) -> None:
    begun(service)
    service.restart()
    finalize(RUN_ID, "ABORTED")
    assert ensure_execution(require_run(RUN_ID)) is None
    assert list(service.standing) == [RUN_ID]


def test_run_is_resumed_only_so_often(service: Service) -> None:
    begun(service)
    lose(service, MAX_RESUMPTIONS)
    service.restart()
    assert ensure_execution(require_run(RUN_ID)) is None
    assert len(service.standing) == MAX_RESUMPTIONS + 1


# ---- what the rule on executions tells


def test_run_goes_on_when_the_rule_tells_that_its_execution_was_lost(service: Service) -> None:
    begun(service)
    service.restart()
    execution_ended(RUN_ID, SERVICE_RESTART)
    assert require_run(RUN_ID).status is RunStatus.RUNNING
    assert service.standing[f"{RUN_ID}-2"] == "RUNNING"


def test_run_is_closed_with_a_sentence_when_it_was_lost_too_often(service: Service) -> None:
    begun(service)
    lose(service, MAX_RESUMPTIONS)
    service.restart()
    execution_ended(f"{RUN_ID}-{MAX_RESUMPTIONS + 1}", SERVICE_RESTART)
    run = require_run(RUN_ID)
    assert run.failure is not None
    assert run.failure.message == "The run was resumed 3 times, and its execution was lost again."


@pytest.mark.parametrize("error", ["ABORTED", "TIMED_OUT", "States.Runtime"])
def test_run_is_closed_when_its_execution_failed_otherwise(service: Service, error: str) -> None:
    begun(service)
    service.standing[RUN_ID] = "FAILED"
    execution_ended(RUN_ID, error)
    assert require_run(RUN_ID).status is RunStatus.FAILED


@pytest.mark.parametrize("error", ["ABORTED", "States.Runtime", SERVICE_RESTART])
def test_run_stays_open_when_an_execution_ended_that_another_has_replaced(service: Service, error: str) -> None:
    begun(service)
    lose(service, 1)
    execution_ended(RUN_ID, error)
    assert require_run(RUN_ID).status is RunStatus.RUNNING
    assert list(service.standing) == [RUN_ID, f"{RUN_ID}-2"]


def test_run_is_closed_when_the_execution_failed_that_replaced_another(service: Service) -> None:
    begun(service)
    lose(service, 1)
    execution_ended(f"{RUN_ID}-2", "States.Runtime")
    assert require_run(RUN_ID).status is RunStatus.FAILED


# ---- answers to questions whose execution was lost


def test_answer_is_left_to_the_execution_that_takes_the_place_of_a_lost_one(service: Service) -> None:
    begun(service)
    question = asked(service)
    service.restart()
    assert answer(question, OWNER, "blue").answer == "blue"
    service.waiting.add("second")
    ask(RUN_ID, QUESTION.call_id, "second")
    assert "second" not in service.waiting
    assert require_run(RUN_ID).pending == ()


def test_answer_stands_when_another_execution_has_not_come_to_its_question_yet(service: Service) -> None:
    begun(service)
    question = asked(service)
    lose(service, 1)
    assert answer(question, OWNER, "blue").answer == "blue"


def test_question_is_asked_with_another_token_when_nobody_answered_before_it_was_lost(service: Service) -> None:
    begun(service)
    question = asked(service)
    lose(service, 1)
    assert asked(service, "second") == question
    answer(question, OWNER, "blue")
    assert "second" not in service.waiting


def test_same_answer_again_resumes_its_run_when_who_gave_it_first_died(service: Service) -> None:
    begun(service)
    question = asked(service)
    service.restart()
    store_answer(read_interaction(question, OWNER), "blue", to_result(a_run().key, QUESTION, "blue"))
    begin_delivery(question)
    answer(question, OWNER, "blue")
    assert service.standing[f"{RUN_ID}-2"] == "RUNNING"


def test_answer_is_too_late_when_its_run_was_lost_too_often(service: Service) -> None:
    begun(service)
    question = asked(service)
    lose(service, MAX_RESUMPTIONS)
    service.restart()
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")


def test_question_is_given_up_when_its_time_went_by_while_no_state_waited(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(service)
    asked(service)
    lose(service, 1)
    moment = now() + timedelta(days=400)
    monkeypatch.setattr(asking, "now", lambda: moment)
    service.waiting.add("second")
    ask(RUN_ID, QUESTION.call_id, "second")
    result = load_call(run.key, QUESTION.key).call.result
    assert result is not None
    assert (result.text, service.waiting) == ("Nobody answered in time.", set())


# ---- cancelling


def test_execution_that_carries_the_run_on_is_stopped_when_it_is_cancelled(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(cancelling, "stop_execution", lambda run: stopped.append(current_execution(run)))
    begun(service)
    lose(service, 1)
    cancel_run(RUN_ID)
    assert stopped == [f"{RUN_ID}-2"]


# ---- agents that others called


def test_called_agents_run_goes_on_when_both_runs_were_lost(service: Service) -> None:
    run = begun(service, DELEGATED)
    start_workflow(RUN_ID, DELEGATED.call_id, "first")
    child = sub_run_of(run.key, DELEGATED.key)
    service.restart()
    start_workflow(RUN_ID, DELEGATED.call_id, "second")
    assert service.standing == {RUN_ID: LOST, child: LOST, f"{child}-2": "RUNNING"}


def test_called_agents_run_is_not_started_twice_when_it_lives(service: Service) -> None:
    run = begun(service, DELEGATED)
    start_workflow(RUN_ID, DELEGATED.call_id, "first")
    start_workflow(RUN_ID, DELEGATED.call_id, "second")
    assert list(service.standing) == [RUN_ID, sub_run_of(run.key, DELEGATED.key)]


def test_call_is_answered_when_the_agents_run_ended_before_its_callers_was_resumed(service: Service) -> None:
    run = begun(service, DELEGATED)
    start_workflow(RUN_ID, DELEGATED.call_id, "first")
    service.restart()
    finalize(sub_run_of(run.key, DELEGATED.key), "ABORTED")
    service.waiting.add("second")
    start_workflow(RUN_ID, DELEGATED.call_id, "second")
    assert "second" not in service.waiting
    assert load_call(run.key, DELEGATED.key).call.result is not None
