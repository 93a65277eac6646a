"""The state machine's contract: where it can go, what it may carry, and what a run costs."""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from stepagent import errors
from stepagent.agents import MAX_CALLS_PER_TURN
from stepagent.messages import CallId
from stepagent.runs import CallRef, Decision, RunKey, SessionKey
from stepagent.store.table import Refused
from tests.definition import PATH, Execution, Json, TaskFailed, all_states, definition, reached, scopes, targets

RUN_ID = RunKey(SessionKey("a" * 32), 999_999).run_id
START = {"run_id": RUN_ID, "turn": 1}
STATE_BYTES = 4096

TASKS = {name: state for name, state in all_states().items() if state["Type"] == "Task"}
CATCHING = {name: state for name, state in all_states().items() if state["Type"] in ("Task", "Map")}
OWN_FAULTS = ["RecordUnavailable", "Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException"]
OWN_FAULTS += ["Lambda.TooManyRequestsException"]
DEAD_PROCESS = ["Runtime.ExitError", "Runtime.Unknown", "Runtime.OutOfMemory", "Lambda.Unknown"]
OVERTAKEN = [Refused.__name__]  # by a second invocation with the same input: what that one stored stands
RESERVED = {"States.ALL", "States.Timeout", "States.TaskFailed", "States.DataLimitExceeded", "States.HeartbeatTimeout"}
ERRORS = {name for name, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, Exception)}
KNOWN_ERRORS = RESERVED | ERRORS | {*OWN_FAULTS, *DEAD_PROCESS, *OVERTAKEN}
FIELDS = {"run_id", "turn", "call_id", "kind", "target", "timeout_s", "error"}


@pytest.mark.parametrize("scope", list(scopes()), ids=lambda scope: scope.start)
def test_every_transition_leads_to_a_state_of_its_scope(scope: Any) -> None:
    led_to = {target for state in scope.states.values() for target in targets(state)}
    assert led_to | {scope.start} <= set(scope.states)


@pytest.mark.parametrize("scope", list(scopes()), ids=lambda scope: scope.start)
def test_every_state_can_be_reached(scope: Any) -> None:
    assert reached(scope) == set(scope.states)


@pytest.mark.parametrize("name", TASKS)
def test_task_has_a_time_limit(name: str) -> None:
    assert TASKS[name]["TimeoutSeconds"]


@pytest.mark.parametrize("name", CATCHING)
def test_every_error_is_caught(name: str) -> None:
    assert CATCHING[name]["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


@pytest.mark.parametrize("name", CATCHING)
def test_every_error_name_is_known(name: str) -> None:
    handlers = [*CATCHING[name].get("Retry", ()), *CATCHING[name]["Catch"]]
    assert {error for handler in handlers for error in handler["ErrorEquals"]} <= KNOWN_ERRORS


@pytest.mark.parametrize("name", TASKS)
def test_retry_covers_faults_of_services_and_dead_or_overtaken_processes_in_the_same_way_everywhere(name: str) -> None:
    [retry] = TASKS[name]["Retry"]
    assert retry == TASKS["Think"]["Retry"][0]
    assert sorted(retry["ErrorEquals"]) == sorted([*OWN_FAULTS, *DEAD_PROCESS, *OVERTAKEN])
    assert (retry["MaxAttempts"], retry["JitterStrategy"]) == (4, "FULL")


def test_file_has_no_anchors_because_not_every_reader_of_it_knows_them() -> None:
    events = list(yaml.parse(PATH.read_text()))
    assert [event for event in events if getattr(event, "anchor", None)] == []


def carried(state: Json) -> Iterator[str]:
    """The names of the fields that a state hands on, or to its function."""
    handed = [state.get("Output"), state.get("ItemSelector"), state.get("Arguments", {}).get("Payload")]
    handed += [branch.get("Output") for branch in [*state.get("Choices", ()), *state.get("Catch", ())]]
    for fields in handed:
        yield from fields if isinstance(fields, dict) else ()


@pytest.mark.parametrize("name", all_states())
def test_state_carries_ids_alone(name: str) -> None:
    assert set(carried(all_states()[name])) <= FIELDS


def test_functions_are_given_ids_alone_and_the_token_where_they_keep_it() -> None:
    functions = Functions([a_reference(0, "ask"), a_reference(1, "workflow"), a_reference(2)])
    Execution(functions).run(START)
    given = {name: set(payload) - {"task_token"} for name, payload in functions.asked}
    assert set().union(*given.values()) <= FIELDS
    assert {name for name, payload in functions.asked if "task_token" in payload} == {"AskPerson", "RunWorkflow"}


def test_definition_holds_no_arn_but_the_services_own() -> None:
    assert set(re.findall(r"arn:\S+", PATH.read_text())) <= {
        "arn:aws:states:::lambda:invoke",
        "arn:aws:states:::lambda:invoke.waitForTaskToken",
    }


def test_definition_stays_on_a_few_screens() -> None:
    assert len(PATH.read_text().splitlines()) <= 150
    assert definition()["QueryLanguage"] == "JSONata"


def a_reference(position: int, kind: str = "tool") -> Json:
    return {"call_id": f"call_1_1_{position}", "kind": kind, "target": "tool_x", "timeout_s": 5}


class Functions:
    """Stands for the functions: `think` asks for these numbers of calls, one a turn, and then ends the run."""

    def __init__(self, *turns: list[Json], fail: str = "", waits: int = 0, end: str = "done") -> None:
        self.turns = list(turns)
        self.fail = fail
        self.waits = waits
        self.end = end
        self.person: Json = {"kind": "none"}
        self.asked: list[tuple[str, Json]] = []

    def __call__(self, name: str, payload: Json) -> Json:
        self.asked.append((name, payload))
        if name in self.fail.split():
            raise TaskFailed("Sandbox.Timedout")
        match name:
            case "Think":
                return self._decision(payload)
            case "AskPerson":
                return self.person
        return {}

    def _decision(self, payload: Json) -> Json:
        base = {"run_id": payload["run_id"], "turn": payload["turn"], "reason": "answered", "calls": [], "wait_s": 0}
        base["max_concurrency"] = 3
        if self.waits:
            self.waits -= 1
            return {**base, "next": "wait", "wait_s": 2}
        if self.turns:
            return {**base, "next": "act", "calls": self.turns.pop(0)}
        return {**base, "next": self.end}


def tools(count: int) -> list[Json]:
    return [a_reference(position) for position in range(count)]


@pytest.mark.parametrize("turns", [[], [1], [5], [1, 3, 20], [0, 2]])
def test_run_costs_three_entries_a_turn_and_two_a_call_and_three_at_the_end(turns: list[int]) -> None:
    execution = Execution(Functions(*map(tools, turns)))
    execution.run(START)
    assert len(execution.entered) == sum(3 + 2 * calls for calls in turns) + 3


def test_question_to_a_person_costs_two_entries_more_than_a_call() -> None:
    execution = Execution(Functions([a_reference(0, "ask"), a_reference(1)]))
    execution.run(START)
    asked, called = ["Route", "AskPerson", "Route", "LeaveToThink"], ["Route", "RunTool"]
    assert execution.entered == ["Think", "Decide", "Act", *asked, *called, "Think", "Decide", "Done"]


@pytest.mark.parametrize(("kind", "state"), [("tool", "RunTool"), ("workflow", "RunWorkflow")])
def test_call_goes_on_by_the_way_of_its_kind_when_a_person_approved_of_it(kind: str, state: str) -> None:
    functions = Functions([a_reference(0, "ask")])
    functions.person = {"kind": kind, "target": "tool_x", "timeout_s": 9}
    execution = Execution(functions)
    execution.run(START)
    assert execution.entered[3:7] == ["Route", "AskPerson", "Route", state]


def test_turns_are_counted_from_one_when_the_loop_goes_round() -> None:
    functions = Functions(tools(1), tools(1))
    Execution(functions).run(START)
    assert [payload["turn"] for name, payload in functions.asked if name == "Think"] == [1, 2, 3]


def test_turn_stays_the_same_when_the_provider_asks_to_wait() -> None:
    functions = Functions(waits=2)
    execution = Execution(functions)
    execution.run(START)
    assert execution.entered == ["Think", "Decide", "CoolDown"] * 2 + ["Think", "Decide", "Done"]
    assert {payload["turn"] for _, payload in functions.asked} == {1}


def test_person_is_asked_with_the_token_when_the_call_is_a_question() -> None:
    functions = Functions([a_reference(0, "ask")])
    Execution(functions).run(START)
    name, payload = functions.asked[1]
    assert (name, payload["call_id"], payload["task_token"]) == ("AskPerson", "call_1_1_0", "token of AskPerson")


def test_failed_call_gets_its_result_and_its_turn_goes_on_when_a_function_times_out() -> None:
    functions = Functions(tools(2), fail="RunTool")
    execution = Execution(functions)
    execution.run(START)
    recorded = [payload for name, payload in functions.asked if name == "RecordCallFailure"]
    assert recorded == [{"run_id": RUN_ID, "call_id": f"call_1_1_{n}", "error": "Sandbox.Timedout"} for n in range(2)]
    assert execution.entered[-1] == "Done"


def test_loop_goes_on_when_even_the_failure_of_a_call_cannot_be_recorded() -> None:
    execution = Execution(Functions(tools(1), fail="RunTool RecordCallFailure"))
    execution.run(START)
    assert execution.entered[-1] == "Done"


def test_run_is_closed_when_think_fails() -> None:
    functions = Functions(fail="Think")
    with pytest.raises(TaskFailed, match=r"Sandbox\.Timedout"):
        Execution(functions).run(START)
    assert functions.asked[-1] == ("RecordFailure", {"run_id": RUN_ID, "error": "Sandbox.Timedout"})


def test_execution_fails_still_when_the_run_cannot_be_closed() -> None:
    with pytest.raises(TaskFailed, match=r"Sandbox\.Timedout"):
        Execution(Functions(fail="Think RecordFailure")).run(START)


def test_run_is_closed_with_the_reason_when_think_decides_to_fail() -> None:
    functions = Functions(end="fail")
    with pytest.raises(TaskFailed, match="answered"):
        Execution(functions).run(START)
    assert functions.asked[-1][1] == {"run_id": RUN_ID, "error": "answered"}


def test_decision_stays_small_when_it_holds_as_many_calls_as_it_may() -> None:
    call_id = CallId("call_999999_1000_19")
    calls = [CallRef(call_id=call_id, kind="tool", target="x" * 64, timeout_s=31_536_005)] * MAX_CALLS_PER_TURN
    decision = Decision(run_id=RUN_ID, turn=1000, next="act", calls=tuple(calls), max_concurrency=40)
    assert len(decision.model_dump_json().encode()) < STATE_BYTES
    execution = Execution(Functions(json.loads(decision.model_dump_json())["calls"]))
    execution.run(START)
    assert max(len(json.dumps(given)) for _, given in execution.inputs) < STATE_BYTES
