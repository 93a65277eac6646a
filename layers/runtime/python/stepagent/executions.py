"""Executions of the state machine: started, resumed, looked at."""

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3

from stepagent.errors import RecordUnavailable, ToolError
from stepagent.runs import RunId
from stepagent.settings import settings

if TYPE_CHECKING:
    from types_boto3_stepfunctions.client import SFNClient

_NOTHING_LEFT = {"kind": "none"}
_TRANSIENT = frozenset({"ThrottlingException", "ExecutionLimitExceeded", "ServiceUnavailable", "InternalFailure"})


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


class Ended(NamedTuple):
    """How an execution ended: with an output (JSON text), or with an error, in words."""

    output: str
    error: str | None


def start_workflow_execution(state_machine_arn: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Starts another state machine with arguments as its input. Returns the execution's ARN if it has ended already.

    Raises:
        ToolError: the state machine does not exist, or this stack may not start it.
        RecordUnavailable: the service is busy; a later try may fare better.
    """
    arn = f"{state_machine_arn.replace(':stateMachine:', ':execution:')}:{name}"
    try:
        client().start_execution(stateMachineArn=state_machine_arn, name=name, input=json.dumps(arguments))
    except client().exceptions.ExecutionAlreadyExists:
        return "" if client().describe_execution(executionArn=arn)["status"] == "RUNNING" else arn
    except client().exceptions.ClientError as error:
        code = error.response["Error"]["Code"]
        if code in _TRANSIENT:  # the state is entered again for it
            raise RecordUnavailable(f"Step Functions did not take a request ({code}).") from error
        raise ToolError(f"The workflow cannot be started ({code}). Do without it.") from error
    return ""


def ended_execution(execution_arn: str) -> Ended:
    """How an execution that has ended came out."""
    found = client().describe_execution(executionArn=execution_arn)
    if found["status"] == "SUCCEEDED":
        return Ended(found.get("output", "null"), None)
    return Ended("", ": ".join(filter(None, (found.get("error", found["status"]), found.get("cause", "")))))


def stop_execution(run_id: RunId) -> None:
    """Stops the loop of a run; one that has ended, or never began, is left as it is."""
    try:
        client().stop_execution(executionArn=_arn(run_id), error="Cancelled", cause="The run was cancelled.")
    except (client().exceptions.ExecutionDoesNotExist, client().exceptions.ValidationException):
        return


def execution_status(run_id: RunId) -> str | None:
    """How the loop of a run stands, in the service's words (`RUNNING`, `FAILED` …); None where none was started."""
    try:
        return client().describe_execution(executionArn=_arn(run_id))["status"]
    except client().exceptions.ExecutionDoesNotExist:
        return None


def resume_execution(task_token: str, next_kind: Mapping[str, Any] = _NOTHING_LEFT) -> bool:
    """Lets the loop go on behind the state that waits with this token; False where none waits any more.

    Args:
        task_token: the state's.
        next_kind: what the call goes on with, in the words of the state machine: `kind`, `target`, `timeout_s`.
    """
    try:
        client().send_task_success(taskToken=task_token, output=json.dumps(next_kind))
    except (client().exceptions.TaskTimedOut, client().exceptions.TaskDoesNotExist):
        return False
    except client().exceptions.InvalidToken:
        return False
    return True


def _arn(run_id: RunId) -> str:
    return settings().state_machine_arn.replace(":stateMachine:", ":execution:") + f":{run_id}"
