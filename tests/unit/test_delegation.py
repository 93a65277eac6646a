"""Calls that agents' runs answer: whatever dies or comes in between, one result, one count, and no run left behind."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from stepagent import cancelling, delegation, delivering, returning, think
from stepagent.agents import AgentSpec, Limits
from stepagent.call_failures import record_failure
from stepagent.cancelling import cancel_run
from stepagent.catalog import FoundAgent
from stepagent.clock import now
from stepagent.delegation import finish_workflow, start_workflow, sub_run_of
from stepagent.ending import finalize, tell_end
from stepagent.errors import RecordConflict
from stepagent.executions import Ended, current_execution
from stepagent.messages import AssistantMessage, UserMessage
from stepagent.returning import answer_parent
from stepagent.runs import (
    ENDED,
    Call,
    CallStatus,
    Decision,
    Outcome,
    Run,
    RunKey,
    RunStatus,
    StopReason,
    TurnRecord,
)
from stepagent.store.calls import load_call, store_result
from stepagent.store.conversation import load_history
from stepagent.store.items import call_key
from stepagent.store.journal import LAST_EVENTS, read_events
from stepagent.store.runs import close_run, load_run, require_run
from stepagent.store.table import apply, change
from stepagent.store.turns import claim_turn, store_turn
from stepagent.tools.execution import error_result
from stepagent.usage import Usage
from tests.builders import RUN_ID, a_call, a_done_call, a_run, a_tool
from tests.disturbance import Disturbance, crash
from tests.recorded import act, begin
from tests.tables import empty_tables, tables_in_memory

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:theirs"
HELPER = a_tool("helper", kind="agent", target="aide", parameters={"type": "object"})
FLOW = a_tool("flow", kind="workflow", target=MACHINE, parameters={"type": "object"})
CALL = a_call(name="helper", kind="agent", arguments={"task": "find it"})
CHILD_ID = sub_run_of(a_run().key, CALL.key)
SPENT = Usage(input_tokens=7, output_tokens=3, cost_usd=Decimal("0.25"))
AIDE = FoundAgent(AgentSpec(name="aide", instructions="Aid.", tools=("search",)), (a_tool(),), {})


class Service:
    """Executions that were started, states that wait and those that were resumed. Stands for `stepagent.executions`."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.resumed: list[str] = []

    def start(self, run: Run) -> bool:
        self.started.append(current_execution(run))
        return True

    def resume(self, token: str, next_kind: Mapping[str, Any] = {}) -> bool:
        self.resumed.append(token)
        return True

    def stop(self, run: Run) -> None:
        pass


@pytest.fixture(scope="module")
def disturbance() -> Iterator[Disturbance]:
    with tables_in_memory():
        yield Disturbance()


@pytest.fixture
def service(disturbance: Disturbance, monkeypatch: pytest.MonkeyPatch) -> Service:
    executions = Service()
    monkeypatch.setattr(delegation, "start_execution", executions.start)
    monkeypatch.setattr(delegation, "find_agent", lambda name: AIDE)
    monkeypatch.setattr(cancelling, "stop_execution", executions.stop)
    for module in (delegation, delivering, returning):
        monkeypatch.setattr(module, "resume_execution", executions.resume)
    return executions


def ask_helper() -> Run:
    """A run that asks another agent, in a record that holds nothing else."""
    empty_tables()
    run = begin(a_run(HELPER, a_tool(), created_at=now()))
    act(run, CALL)
    return run


def end(run: Run, answer: str = "Here.") -> None:
    """The run's last turn."""
    decision = Decision(run_id=run.run_id, turn=2, next="done")
    outcome = Outcome(RunStatus.COMPLETED, StopReason.ANSWERED, answer)
    reply = AssistantMessage(text=answer)
    store_turn(run, claim_turn(run, 2, "claim").claim_id, TurnRecord(decision, reply, (), SPENT, outcome))


def enter() -> None:
    start_workflow(RUN_ID, CALL.call_id, "token")


def child() -> Run:
    return require_run(CHILD_ID)


def answered() -> Call:
    return load_call(a_run().key, CALL.key).call


def completions() -> int:
    return sum(event.type == "tool.completed" for event in read_events(RUN_ID, 0))


def time_out() -> None:
    record_failure(RUN_ID, CALL.call_id, "States.Timeout")


def cancel() -> None:
    cancel_run(RUN_ID)


def working() -> None:
    """The helper was asked and has spent something."""
    ask_helper()
    enter()
    act(child(), a_call(turn=1), usage=SPENT)


def done() -> None:
    """The helper has its answer, and nobody was told."""
    ask_helper()
    enter()
    end(child())


@pytest.fixture(params=[time_out, cancel])
def give_up(request: pytest.FixtureRequest) -> Callable[[], None]:
    """A way in which a call comes to its end before its agent does."""
    way: Callable[[], None] = request.param
    return way


def test_agent_begins_and_answers_when_the_state_dies_anywhere(service: Service, disturbance: Disturbance) -> None:
    for _ in disturbance.everywhere(crash, ask_helper, enter):
        assert CHILD_ID in service.started
        end(child())
        answer_parent(child())
        assert (answered().result or CALL.result).text == "Here."  # type: ignore[union-attr]
        assert (service.resumed[-1], require_run(RUN_ID).usage) == ("token", SPENT)


def test_answer_is_counted_once_when_its_bringer_dies_anywhere(service: Service, disturbance: Disturbance) -> None:
    for _ in disturbance.everywhere(crash, done, lambda: tell_end(child())):
        tell_end(child())  # EventBridge tells twice
        assert (answered().status, completions() <= 1) == (CallStatus.DONE, True)
        assert (service.resumed[-1], require_run(RUN_ID).usage) == ("token", SPENT)


def test_agent_ends_and_what_it_spent_counts_when_whoever_gives_it_up_dies_anywhere(
    service: Service, disturbance: Disturbance, give_up: Callable[[], None]
) -> None:
    for _ in disturbance.everywhere(crash, working, give_up):
        assert (child().status, answered().status) == (RunStatus.CANCELLED, CallStatus.DONE)
        assert (require_run(RUN_ID).usage, completions() <= 1) == (SPENT, True)


def test_no_agent_goes_on_when_its_call_is_given_up_while_it_begins(
    service: Service, disturbance: Disturbance, give_up: Callable[[], None]
) -> None:
    for _ in disturbance.everywhere(give_up, ask_helper, enter):
        if answered().status is not CallStatus.DONE:  # the last time nothing came in between
            give_up()
        made = load_run(RunKey.parse(CHILD_ID))
        assert made is None or made.status in ENDED
        assert answered().status is CallStatus.DONE


def test_call_has_one_result_and_one_count_when_its_agent_ends_while_it_is_given_up(
    service: Service, disturbance: Disturbance, give_up: Callable[[], None]
) -> None:
    def end_meanwhile() -> None:
        with suppress(RecordConflict):  # it is given up already
            end(child())
        tell_end(child())

    def asked() -> None:
        ask_helper()
        enter()

    for _ in disturbance.everywhere(end_meanwhile, asked, give_up):
        assert (answered().status, child().status in ENDED, completions() <= 1) == (CallStatus.DONE, True, True)
        assert require_run(RUN_ID).usage == child().usage


def test_run_has_one_end_when_it_is_finalized_while_it_is_cancelled(service: Service, disturbance: Disturbance) -> None:
    for _ in disturbance.everywhere(lambda: finalize(RUN_ID, "ABORTED"), working, cancel):
        ends = [event.type for event in read_events(RUN_ID, 0) if event.type in LAST_EVENTS]
        assert ends == [f"run.{require_run(RUN_ID).status}"]


def test_run_is_cancelled_once_when_two_cancel_it(service: Service, disturbance: Disturbance) -> None:
    for _ in disturbance.everywhere(cancel, working, cancel):
        assert [event.type for event in read_events(RUN_ID, 0) if event.type in LAST_EVENTS] == ["run.cancelled"]
        assert (completions() <= 1, child().status) == (True, RunStatus.CANCELLED)


def test_time_that_an_agent_waited_for_people_is_none_of_its_callers(service: Service) -> None:
    ask_helper()
    enter()
    waited = a_done_call("blue")
    assert waited.result
    act(child(), waited.model_copy(update={"result": waited.result.model_copy(update={"waited_s": 50})}))
    end(child())
    asking = a_tool("ask", kind="interactive", target="", parameters={"type": "object"})
    answer_parent(child().model_copy(update={"tools": (asking,)}))
    assert answered().result == (answered().result or waited.result).model_copy(update={"waited_s": 50})


def test_run_that_was_cancelled_itself_answers_its_caller(service: Service) -> None:
    working()
    cancel_run(CHILD_ID)
    result = answered().result
    assert result
    assert (result.is_error, "cancelled" in result.text, service.resumed) == (True, True, ["token"])


def test_answer_that_comes_too_late_changes_nothing(service: Service) -> None:
    working()
    time_out()
    before = answered()
    answer_parent(child().model_copy(update={"answer": "late", "status": RunStatus.COMPLETED}))
    assert answered() == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"task": "find it"}, "find it"),
        ({"task": "find it", "where": "at home"}, '{"task": "find it", "where": "at home"}'),
    ],
)
def test_agent_is_told_its_task_or_all_arguments_where_there_are_others(
    service: Service, arguments: dict[str, Any], told: str
) -> None:
    empty_tables()
    run = begin(a_run(HELPER, a_tool(), created_at=now()))
    act(run, CALL.model_copy(update={"arguments": arguments}))
    enter()
    assert load_history(child().key.session) == [UserMessage(text=told)]


def test_agent_may_spend_what_its_caller_has_left(service: Service) -> None:
    empty_tables()
    limits = Limits(max_total_tokens=100, max_cost_usd=Decimal(1))
    run = begin(a_run(HELPER, a_tool(), limits=limits, created_at=now()))
    act(run, CALL, usage=SPENT)
    enter()
    made = child().agent.limits
    assert (made.max_total_tokens, made.max_cost_usd) == (90, Decimal("0.75"))


def test_agent_asks_no_model_when_its_caller_has_ended_however_that_came(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    working()
    close_run(require_run(RUN_ID), Outcome(RunStatus.FAILED, StopReason.FAILED))  # stopped from outside
    monkeypatch.setattr(think, "run_turn", lambda *_: pytest.fail("a model was asked"))
    assert think.think(CHILD_ID, 2).next == "fail"
    assert child().status is RunStatus.CANCELLED


def test_time_for_which_a_call_waited_for_approval_is_part_of_its_result(service: Service) -> None:
    ask_helper()
    stored = store_result(a_run().key, CALL.key, error_result("x").model_copy(update={"waited_s": 5}))
    apply(
        change(
            call_key(a_run().key.session, CALL.key),
            "SET approved = :digest, waited_s = :waited",  # as an approval leaves it
            "attribute_exists(pk)",
            {":digest": "d", ":waited": 40},
        )
    )
    result = answered().result
    assert stored
    assert result
    assert result.waited_s == 45


def flow_asked() -> None:
    """A run that starts a state machine of somebody else."""
    empty_tables()
    run = begin(a_run(FLOW, a_tool(), created_at=now()))
    act(run, a_call(name="flow", kind="workflow", arguments={"value": 1}))


@pytest.fixture
def flows(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the workflows that were started; each ends with the output 7."""
    started: list[str] = []

    def start(arn: str, name: str, arguments: Mapping[str, Any]) -> str:
        known = name in started
        started.append(name)
        return f"{arn}:{name}" if known else ""  # as the service does, once it has ended

    monkeypatch.setattr(delegation, "start_workflow_execution", start)
    monkeypatch.setattr(delegation, "ended_execution", lambda arn: Ended("7", None))
    return started


def flow_ended() -> None:
    finish_workflow(f"{RUN_ID}-{CALL.call_id}", "arn:of:it")


def test_workflow_is_started_under_one_name_and_answers_when_the_state_dies_anywhere(
    service: Service, disturbance: Disturbance, flows: list[str]
) -> None:
    for _ in disturbance.everywhere(crash, flow_asked, enter):
        flow_ended()
        result = answered().result
        assert result
        assert (result.text, completions() <= 1, set(flows)) == ("7", True, {f"{RUN_ID}-{CALL.call_id}"})
        assert service.resumed[-1] == "token"


def test_workflows_end_is_told_as_often_as_it_likes(
    service: Service, disturbance: Disturbance, flows: list[str]
) -> None:
    def started() -> None:
        flow_asked()
        enter()

    for act_meanwhile in (crash, flow_ended, time_out, cancel):
        for _ in disturbance.everywhere(act_meanwhile, started, flow_ended):
            flow_ended()
            assert (answered().status, completions() <= 1) == (CallStatus.DONE, True)


def test_end_of_an_execution_that_answers_no_call_is_nothing(service: Service, flows: list[str]) -> None:
    finish_workflow("run_of_somebody_else", "arn:of:it")
    assert service.resumed == []
