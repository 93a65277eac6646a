"""The contract of the state machine for plans: where it can go, what it may carry, and what a run costs."""

import json
import re
from typing import Any

import pytest

from stepagent.messages import CallId
from stepagent.planning.plan import MAX_STEPS
from stepagent.runs import CallRef, Decision, RunKey, SessionKey
from tests.definition import PLAN_PATH, Execution, Json, TaskFailed, all_states, definition, reached, scopes

RUN_ID = RunKey(SessionKey("a" * 32), 999_999).run_id
START = {"run_id": RUN_ID, "turn": 1}
STATE_BYTES = 4_096
STATES = all_states(PLAN_PATH)
LOOP = all_states()
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
FIELDS = {"run_id", "turn", "call_id", "error", "task_token"}


class Functions:
    """Stands for the functions: Think gives these decisions one after the other, each with its number of calls."""

    def __init__(self, *decisions: tuple[str, int], fail: str = "") -> None:
        self.decisions = list(decisions)
        self.fail = fail.split()
        self.asked: list[tuple[str, Json]] = []

    def __call__(self, name: str, payload: Json) -> Json:
        self.asked.append((name, payload))
        if name in self.fail:
            raise TaskFailed("States.Timeout")
        if name not in ("Plan", "Review", "Answer"):
            return {}
        wanted, calls = self.decisions.pop(0)
        base = {"run_id": payload["run_id"], "turn": payload["turn"], "reason": "why", "wait_s": 2}
        return {**base, "next": wanted, "calls": [a_reference(n) for n in range(calls)], "max_concurrency": 3}

    @property
    def turns(self) -> list[int]:
        return [payload["turn"] for _, payload in self.asked if "turn" in payload and "machine" in payload]


def a_reference(position: int) -> Json:
    return {"call_id": f"call_1_1_{position}", "kind": "workflow", "target": "", "timeout_s": 5}


def walk(*decisions: tuple[str, int], fail: str = "") -> tuple[Execution, Functions]:
    functions = Functions(*decisions, fail=fail)
    execution = Execution(functions, PLAN_PATH)
    execution.run(START)
    return execution, functions


@pytest.mark.parametrize("scope", list(scopes(definition(PLAN_PATH))), ids=lambda scope: scope.start)
def test_every_state_can_be_reached_and_every_transition_leads_to_one(scope: Any) -> None:
    assert reached(scope) == set(scope.states)


@pytest.mark.parametrize("name", TASKS)
def test_task_has_a_time_limit_the_loops_own_retry_and_a_net_under_everything(name: str) -> None:
    task = TASKS[name]
    assert task["TimeoutSeconds"]
    assert task["Retry"] == LOOP["Think"]["Retry"]
    assert task["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


def test_failure_of_the_whole_round_is_caught() -> None:
    assert STATES["RunSteps"]["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


@pytest.mark.parametrize("name", STATES)
def test_state_carries_ids_alone(name: str) -> None:
    state = STATES[name]
    handed = [state.get("Output"), state.get("ItemSelector"), state.get("Arguments", {}).get("Payload")]
    handed += [branch.get("Output") for branch in [*state.get("Choices", ()), *state.get("Catch", ())]]
    assert {field for fields in handed if isinstance(fields, dict) for field in fields} <= FIELDS


def test_definition_holds_no_arn_but_the_services_own() -> None:
    text = PLAN_PATH.read_text()
    services = {f"arn:aws:states:::lambda:invoke{more}" for more in ("", ".waitForTaskToken")}
    assert set(re.findall(r"arn:\S+", text)) == services
    assert len(text.splitlines()) <= 160


@pytest.mark.parametrize("rounds", [[1], [1, 2, 1, 1], [20]])
def test_run_costs_five_entries_and_three_and_one_a_step_for_each_round(rounds: list[int]) -> None:
    execution, functions = walk(*(("act", steps) for steps in rounds), ("answer", 0), ("done", 0))
    assert len(execution.entered) == 5 + sum(3 + steps for steps in rounds)
    assert functions.turns == list(range(1, len(rounds) + 3))


def test_question_to_a_person_costs_three_entries() -> None:
    execution, functions = walk(("confirm", 1), ("act", 1), ("answer", 0), ("done", 0))
    assert execution.entered[:5] == ["Plan", "NextSteps", "Confirm", "Review", "NextSteps"]
    name, payload = functions.asked[1]
    assert (name, payload["call_id"], payload["task_token"]) == ("Confirm", "call_1_1_0", "token of Confirm")


def test_review_reads_what_became_of_a_question_that_nobody_answered() -> None:
    execution, functions = walk(("confirm", 1), ("answer", 0), ("done", 0), fail="Confirm")
    assert execution.entered[2:5] == ["Confirm", "RecordNoAnswer", "Review"]
    recorded = dict(functions.asked)["RecordNoAnswer"]
    assert (recorded["call_id"], recorded["error"]) == ("call_1_1_0", "States.Timeout")
    assert functions.turns == [1, 2, 3]


def test_run_goes_on_when_neither_an_answer_nor_its_absence_can_be_recorded() -> None:
    _, functions = walk(("confirm", 1), ("answer", 0), ("done", 0), fail="Confirm RecordNoAnswer")
    assert functions.turns == [1, 2, 3]


def test_failed_step_gets_its_result_and_the_round_goes_on() -> None:
    execution, functions = walk(("act", 2), ("answer", 0), ("done", 0), fail="RunStep")
    recorded = [payload for name, payload in functions.asked if name == "RecordStepFailure"]
    assert recorded == [{"run_id": RUN_ID, "call_id": f"call_1_1_{n}", "error": "States.Timeout"} for n in range(2)]
    assert execution.entered[-1] == "Done"


def test_round_goes_on_when_even_the_failure_of_a_step_cannot_be_recorded() -> None:
    execution, _ = walk(("act", 1), ("answer", 0), ("done", 0), fail="RunStep RecordStepFailure")
    assert execution.entered[-1] == "Done"


def test_turn_stays_the_same_when_the_provider_asks_to_wait() -> None:
    execution, functions = walk(("wait", 0), ("act", 1), ("answer", 0), ("done", 0))
    assert execution.entered[:4] == ["Plan", "NextSteps", "CoolDown", "Review"]
    assert functions.turns == [1, 1, 2, 3]


@pytest.mark.parametrize("state", ["Plan", "Review", "Answer"])
def test_run_is_closed_when_a_turn_fails(state: str) -> None:
    functions = Functions(("act", 1), ("answer", 0), ("done", 0), fail=state)
    with pytest.raises(TaskFailed, match=r"States\.Timeout"):
        Execution(functions, PLAN_PATH).run(START)
    assert functions.asked[-1] == ("RecordFailure", {"run_id": RUN_ID, "error": "States.Timeout"})


def test_run_is_closed_with_the_reason_when_a_turn_decides_to_fail() -> None:
    functions = Functions(("fail", 0))
    with pytest.raises(TaskFailed, match="why"):
        Execution(functions, PLAN_PATH).run(START)
    assert functions.asked[-1] == ("RecordFailure", {"run_id": RUN_ID, "error": "why"})


def test_states_stay_small_when_as_many_steps_run_as_a_plan_may_have() -> None:
    calls = [
        CallRef(call_id=CallId(f"call_999999_1000_{n}"), kind="workflow", target="", timeout_s=31_536_000)
        for n in range(MAX_STEPS)
    ]
    decision = Decision(run_id=RUN_ID, turn=1_000, next="act", calls=tuple(calls), max_concurrency=40)
    assert len(decision.model_dump_json().encode()) < STATE_BYTES
    execution, _ = walk(("act", MAX_STEPS), ("answer", 0), ("done", 0))
    assert max(len(json.dumps(given)) for _, given in execution.inputs) < STATE_BYTES
