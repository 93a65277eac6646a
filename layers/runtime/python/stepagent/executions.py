"""Executions of the state machine: started, resumed, looked at."""

import json
from functools import cache
from typing import TYPE_CHECKING

import boto3

from stepagent.runs import RunId
from stepagent.settings import settings

if TYPE_CHECKING:
    from types_boto3_stepfunctions.client import SFNClient


@cache
def client() -> "SFNClient":
    return boto3.client("stepfunctions")


def start_execution(run_id: RunId) -> None:
    """Starts the loop for a run. The execution bears the run's id, so a second start of the same run does nothing."""
    try:
        client().start_execution(
            stateMachineArn=settings().state_machine_arn, name=run_id, input=json.dumps({"run_id": run_id, "turn": 1})
        )
    except client().exceptions.ExecutionAlreadyExists:
        return


def execution_status(run_id: RunId) -> str | None:
    """How the loop of a run stands, in the service's words (`RUNNING`, `FAILED` …); None where none was started."""
    arn = settings().state_machine_arn.replace(":stateMachine:", ":execution:") + f":{run_id}"
    try:
        return client().describe_execution(executionArn=arn)["status"]
    except client().exceptions.ExecutionDoesNotExist:
        return None


def resume_execution(task_token: str) -> bool:
    """Lets the loop go on behind the state that waits with this token; False where none waits any more."""
    try:
        client().send_task_success(taskToken=task_token, output="{}")
    except (client().exceptions.TaskTimedOut, client().exceptions.TaskDoesNotExist):
        return False
    except client().exceptions.InvalidToken:
        return False
    return True
