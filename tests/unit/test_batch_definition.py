"""The contract of the batches' state machine, whose Map the emulator cannot run as AWS does: fields, limits, rights."""

import json
import re
from typing import Any

import pytest
import yaml
from samtranslator.yaml_helper import yaml_parse

from stepagent.batches.models import MAX_INPUTS, BatchKey, InputRef, Pace
from stepagent.batches.preparing import Prepared
from tests.definition import definition, evaluate, scopes, targets
from tests.functions import ROOT

Json = dict[str, Any]

PATH = ROOT / "statemachine" / "batch.asl.yaml"
MACHINE: Json = yaml_parse(PATH.read_text())
STATES: Json = MACHINE["States"]
MAP: Json = STATES["RunInputs"]
CHILD: Json = MAP["ItemProcessor"]["States"]["RunInput"]
RESOURCES: Json = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
KEY = BatchKey("a" * 32)
PREPARED = Prepared(
    batch=KEY,
    next="run",
    bucket="bucket",
    index_key="batches/results/ann/b1/index.jsonl",
    map_prefix="batches/results/ann/b1/map",
    max_concurrency=10,
    tolerated_failure_count=5,
    tolerated_failure_percentage=12.5,
).model_dump(mode="json")
SEEN = {"input": PREPARED, "context": {"Execution": {"Input": {"batch": KEY}}}}
TASKS = {**{name: state for name, state in STATES.items() if state["Type"] == "Task"}, "RunInput": CHILD}
AGENT_RETRY = definition()["States"]["Think"]["Retry"][0]


@pytest.mark.parametrize("scope", list(scopes(MACHINE)), ids=lambda scope: scope.start)
def test_every_transition_leads_to_a_state_and_every_state_is_reached(scope: Any) -> None:
    led_to = {target for state in scope.states.values() for target in targets(state)}
    assert led_to | {scope.start} == set(scope.states)


@pytest.mark.parametrize("name", TASKS)
def test_task_has_a_time_limit_and_covers_the_services_own_faults(name: str) -> None:
    assert TASKS[name]["TimeoutSeconds"]
    assert TASKS[name]["Retry"][0] == AGENT_RETRY


def test_input_waits_for_its_session_and_no_other_failure_is_tried_again() -> None:
    [_, busy] = CHILD["Retry"]
    assert busy["ErrorEquals"] == ["Conflict"]
    assert "Catch" not in CHILD  # a child that fails counts against what is tolerated; the record holds the reason


@pytest.mark.parametrize("name", ["PrepareBatch", "RunInputs"])
def test_batch_is_finished_whatever_fails(name: str) -> None:
    [catch] = STATES[name]["Catch"]
    assert (catch["ErrorEquals"], catch["Next"]) == (["States.ALL"], "FinishBatch")
    assert evaluate(catch["Output"], SEEN | {"errorOutput": {"Error": "States.X"}}) == {
        "batch": KEY,
        "error": "States.X",
    }


def test_batch_with_nothing_to_run_is_finished() -> None:
    [choice] = STATES["Decide"]["Choices"]
    assert evaluate(choice["Condition"], {"input": {**PREPARED, "next": "finish"}}) is True
    assert evaluate(choice["Condition"], SEEN) is False
    assert evaluate(choice["Output"], SEEN) == {"batch": KEY}


def test_map_reads_the_list_of_inputs_and_writes_beside_it() -> None:
    reader = evaluate(MAP["ItemReader"], SEEN)
    assert reader == {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": "JSONL"},
        "Arguments": {"Bucket": "bucket", "Key": PREPARED["index_key"]},
    }
    writer = evaluate(MAP["ResultWriter"], SEEN)
    assert writer["Arguments"] == {"Bucket": "bucket", "Prefix": PREPARED["map_prefix"]}


def test_map_has_the_pace_of_the_batch() -> None:
    names = ("MaxConcurrency", "ToleratedFailureCount", "ToleratedFailurePercentage")
    assert [evaluate(MAP[name], SEEN) for name in names] == [10, 5, 12.5]


def test_any_number_of_failures_is_tolerated_unless_the_batch_says_otherwise() -> None:
    pace = Pace()
    assert (pace.tolerated_failure_count, pace.tolerated_failure_percentage) == (MAX_INPUTS, 100)


def test_child_is_a_standard_execution_because_it_waits_with_a_token() -> None:
    assert MAP["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert CHILD["Resource"].endswith(".waitForTaskToken")


def test_input_costs_one_state_entry() -> None:
    assert list(MAP["ItemProcessor"]["States"]) == ["RunInput"]


def test_child_is_given_ids_and_its_token() -> None:
    ref = InputRef(batch=KEY, n=7, id="x" * 128, line=9, at=10**9, size=10**6).model_dump()
    seen = {"input": ref, "context": {"Task": {"Token": "token"}}}
    assert evaluate(CHILD["Arguments"]["Payload"], seen) == {**ref, "task_token": "token"}
    assert len(json.dumps(ref)) < 512


def test_states_stay_small() -> None:
    assert len(json.dumps(PREPARED)) < 1024


def test_input_ends_before_its_batch_must() -> None:
    assert CHILD["TimeoutSeconds"] < MACHINE["TimeoutSeconds"] == 31_536_000


def test_file_has_no_anchors_and_stays_on_a_few_screens() -> None:
    assert [event for event in yaml.parse(PATH.read_text()) if getattr(event, "anchor", None)] == []
    assert len(PATH.read_text().splitlines()) <= 150
    assert MACHINE["QueryLanguage"] == "JSONata"


# ---- the template


def test_substitutions_are_the_functions_that_the_definition_names() -> None:
    substitutions = RESOURCES["BatchStateMachine"]["Properties"]["DefinitionSubstitutions"]
    assert set(re.findall(r"\$\{(\w+)\}", PATH.read_text())) == set(substitutions)
    assert {name: value["Fn::GetAtt"][0] for name, value in substitutions.items()} == {
        name: name.removesuffix("Arn") for name in substitutions
    }


def statements() -> dict[str, Json]:
    """What the state machine's role may do, by the first action of each statement."""
    policies = RESOURCES["BatchStateMachineRole"]["Properties"]["Policies"]
    [running] = [policy["PolicyDocument"]["Statement"] for policy in policies if policy["PolicyName"] == "run"]
    return {_first(statement["Action"]): statement for statement in running}


def _first(actions: Any) -> str:
    return str(actions[0] if isinstance(actions, list) else actions)


def test_role_may_start_its_own_children_and_touch_its_own_objects_alone() -> None:
    role = statements()
    assert set(role) == {
        "lambda:InvokeFunction",
        "states:StartExecution",
        "states:DescribeExecution",
        "s3:GetObject",
    }
    assert role["states:StartExecution"]["Resource"]["Fn::Sub"].endswith(":stateMachine:${AWS::StackName}-batch")
    assert role["states:DescribeExecution"]["Resource"]["Fn::Sub"].endswith(
        f":execution:${{AWS::StackName}}-batch/{MAP['Label']}:*"
    )
    assert role["s3:GetObject"]["Resource"] == {"Fn::Sub": "${PayloadBucket.Arn}/batches/results/*"}
    assert {resource["Fn::GetAtt"][0] for resource in role["lambda:InvokeFunction"]["Resource"]} == {
        "PrepareBatchFunction",
        "RunInputFunction",
        "FinishBatchFunction",
    }


def test_ends_of_runs_may_answer_the_children_of_the_map() -> None:
    policies = RESOURCES["ThinkFunction"]["Properties"]["Policies"]
    [answering] = [s for p in policies for s in p["Statement"] if "states:SendTaskFailure" in s["Action"]]
    machines = [resource["Fn::Sub"].partition(":stateMachine:")[2] for resource in answering["Resource"]]
    assert machines == ["${AWS::StackName}-batch", f"${{AWS::StackName}}-batch/{MAP['Label']}"]


def test_death_of_a_batch_reaches_finish_batch() -> None:
    [rule] = RESOURCES["FinishBatchFunction"]["Properties"]["Events"].values()
    detail = rule["Properties"]["Pattern"]["detail"]
    assert set(detail["status"]) == {"FAILED", "TIMED_OUT", "ABORTED"}
    assert detail["stateMachineArn"] == [{"Ref": "BatchStateMachine"}]


def test_execution_data_stays_out_of_the_logs() -> None:
    assert RESOURCES["BatchStateMachine"]["Properties"]["Logging"]["IncludeExecutionData"] is False


@pytest.mark.parametrize("name", ["PrepareBatch", "FinishBatch"])
def test_state_waits_longer_than_its_function_may_run(name: str) -> None:
    assert STATES[name]["TimeoutSeconds"] > RESOURCES[f"{name}Function"]["Properties"]["Timeout"]


def test_prepare_reads_what_people_put_there_and_no_other_objects() -> None:
    policies = RESOURCES["PrepareBatchFunction"]["Properties"]["Policies"]
    found = {_first(s["Action"]): s for p in policies for s in p["Statement"]}
    assert found["s3:ListBucket"]["Condition"] == {"StringLike": {"s3:prefix": "batches/inputs/*"}}
    assert [r["Fn::Sub"] for r in found["s3:GetObject"]["Resource"]] == [
        "${PayloadBucket.Arn}/batches/inputs/*",
        "${PayloadBucket.Arn}/batches/results/*",
    ]
