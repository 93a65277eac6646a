"""Executions of the state machines: named, started, resumed, looked at."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import boto3
from pydantic import AliasPath, BaseModel, Field

from stepagent.errors import NotFound, RecordUnavailable, ToolError
from stepagent.runs import Run, RunId
from stepagent.settings import settings

if TYPE_CHECKING:
    from types_boto3_stepfunctions.client import SFNClient

LOST = "LOST"  # a status beside those of the service
SERVICE_RESTART = "States.ServiceRestart"  # the error of executions that the service lost
_NOTHING_LEFT = {"kind": "none"}
TRANSIENT = frozenset({"ThrottlingException", "ExecutionLimitExceeded", "ServiceUnavailable", "InternalFailure"})


class EndedExecution(BaseModel):
    """That an execution ended, as EventBridge tells it; only some ends have an error."""

    name: str = Field(validation_alias=AliasPath("detail", "name"))
    status: str = Field(validation_alias=AliasPath("detail", "status"))
    error: str | None = Field(None, validation_alias=AliasPath("detail", "error"))

    @property
    def why(self) -> str:
        return self.error or self.status


@cache
def client() -> "SFNClient":
    return boto3.client("stepfunctions")


class ExecutionName(NamedTuple):
    """Which execution of a run: the first bears the run's id, and the n-th one `-n` behind it. None is used again."""

    run_id: RunId
    number: int

    @classmethod
    def parse(cls, name: str) -> Self:
        """Reads the name of an execution.

        Raises:
            NotFound: no execution of a run is named so.
        """
        parts = re.fullmatch(r"(run_[a-z0-9]+_[0-9]+)(?:-([1-9][0-9]*))?", name)
        if parts is None:
            raise NotFound(f"No run has an execution {name[:80]!r}.")
        return cls(RunId(parts[1]), int(parts[2] or 1))

    def __str__(self) -> str:
        return self.run_id if self.number == 1 else f"{self.run_id}-{self.number}"


def current_execution(run: Run) -> str:
    """The name of the execution that carries a run on."""
    return str(ExecutionName(run.run_id, run.executions))


def start_execution(run: Run) -> bool:
    """Starts the execution that carries a run on; False where it was started before, so a second start does nothing.

    It begins at the run's last turn: one that is stored is not decided again.
    """
    name, given = current_execution(run), {"run_id": run.run_id, "turn": max(1, run.turns)}
    try:
        client().start_execution(stateMachineArn=_machine_arn(run), name=name, input=json.dumps(given))
    except client().exceptions.ExecutionAlreadyExists:
        return False
    return True


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
        if code in TRANSIENT:  # the state is entered again for it
            raise RecordUnavailable(f"Step Functions did not take a request ({code}).") from error
        raise ToolError(f"The workflow cannot be started ({code}). Do without it.") from error
    return ""


def ended_execution(execution_arn: str) -> Ended:
    """How an execution that has ended came out."""
    found = client().describe_execution(executionArn=execution_arn)
    if found["status"] == "SUCCEEDED":
        return Ended(found.get("output", "null"), None)
    return Ended("", ": ".join(filter(None, (found.get("error", found["status"]), found.get("cause", "")))))


def stop_execution(run: Run) -> None:
    """Stops the execution of a run; one that has ended, or never began, is left as it is."""
    try:
        client().stop_execution(executionArn=_arn(run), error="Cancelled", cause="The run was cancelled.")
    except (client().exceptions.ExecutionDoesNotExist, client().exceptions.ValidationException):
        return


def execution_status(run: Run) -> str | None:
    """How the execution of a run stands, in the service's words (`RUNNING`, `FAILED` …).

    `LOST` where the service lost it, None where there is none, be it not yet or not any more.
    """
    try:
        found = client().describe_execution(executionArn=_arn(run))
    except client().exceptions.ExecutionDoesNotExist:
        return None
    return LOST if found.get("error") == SERVICE_RESTART else found["status"]


def resume_execution(task_token: str, next_kind: Mapping[str, Any] = _NOTHING_LEFT) -> bool:
    """Lets the loop go on behind the state that waits with this token; False where none waits any more.

    Args:
        task_token: the state's.
        next_kind: what the call goes on with, in the words of the state machine: `kind`, `target`, `timeout_s`.
    """
    gone = client().exceptions
    try:
        client().send_task_success(taskToken=task_token, output=json.dumps(next_kind))
    except (gone.TaskTimedOut, gone.TaskDoesNotExist, gone.InvalidToken):
        return False
    return True


def answer_each(task_tokens: Iterable[str], answer: Callable[[str], object]) -> bool:
    """Answers every token with which a state has waited, whatever comes of one; False where no state took its answer.

    Raises:
        Exception: that of the first token for which there was one, where no state took its answer.
    """
    taken, errors = False, list[Exception]()
    for token in task_tokens:
        try:
            taken = bool(answer(token)) or taken
        except Exception as error:  # the token in use may be one of the others
            errors.append(error)
    if errors and not taken:
        raise errors[0]
    return taken


def _machine_arn(run: Run) -> str:
    """The state machine that carries a run: the one of plans, or that of the loop."""
    return settings().plan_state_machine_arn if run.strategy == "plan" else settings().state_machine_arn


def _arn(run: Run) -> str:
    return f"{_machine_arn(run).replace(':stateMachine:', ':execution:')}:{current_execution(run)}"
