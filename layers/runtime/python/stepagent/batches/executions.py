"""Executions of the state machine of batches, and the states in them that wait for runs."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Self

from stepagent.batches.models import Batch, BatchKey
from stepagent.errors import NotFound, RecordUnavailable
from stepagent.executions import LOST, SERVICE_RESTART, TRANSIENT, client
from stepagent.settings import settings


class BatchExecutionName(NamedTuple):
    """Which execution of a batch, as with those of runs. None is used again."""

    key: BatchKey
    number: int

    @classmethod
    def parse(cls, name: str) -> Self:
        """Reads the name of an execution.

        Raises:
            NotFound: no execution of a batch is named so.
        """
        parts = re.fullmatch(r"batch_([a-z2-7]{32})-([1-9][0-9]*)", name)
        if parts is None:
            raise NotFound(f"No batch has an execution {name[:80]!r}.")
        return cls(BatchKey(parts[1]), int(parts[2]))

    def __str__(self) -> str:
        return f"batch_{self.key}-{self.number}"


def current_execution(batch: Batch) -> str:
    """The name of the execution that carries a batch on."""
    return str(BatchExecutionName(batch.key, batch.executions))


def start_execution(batch: Batch) -> bool:
    """Starts the execution that is to carry a batch on; False where it was started before."""
    given = json.dumps({"batch": batch.key})
    try:
        client().start_execution(
            stateMachineArn=settings().batch_state_machine_arn, name=current_execution(batch), input=given
        )
    except client().exceptions.ExecutionAlreadyExists:
        return False
    return True


def execution_status(batch: Batch) -> str | None:
    """How the execution stands that carries a batch on: as the service says, `LOST`, or None where there is none."""
    try:
        found = client().describe_execution(executionArn=_arn(batch))
    except client().exceptions.ExecutionDoesNotExist:
        return None
    return LOST if found.get("error") == SERVICE_RESTART else found["status"]


def stop_execution(batch: Batch) -> None:
    """Stops the execution that carries a batch on; one that has ended, or never began, is left as it is."""
    try:
        client().stop_execution(executionArn=_arn(batch), error="Cancelled", cause="The batch was cancelled.")
    except (client().exceptions.ExecutionDoesNotExist, client().exceptions.ValidationException):
        return


@contextmanager
def busy_service_translated() -> Iterator[None]:
    """Where Step Functions takes no more requests for now, as a fault for which the state is entered again.

    Raises:
        RecordUnavailable: that is so.
    """
    try:
        yield
    except client().exceptions.ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in TRANSIENT:
            raise
        raise RecordUnavailable(f"Step Functions did not take a request ({code}).") from error


def answer_state(task_token: str, *, succeeded: bool) -> None:
    """Ends the state that waits for an input's run; nothing happens where none waits any more.

    A failure counts against what the batch tolerates. Neither passes on what came of the run: the record has it.

    Raises:
        RecordUnavailable: the service is busy; a later try may fare better.
    """
    gone = client().exceptions
    with busy_service_translated(), suppress(gone.TaskTimedOut, gone.TaskDoesNotExist, gone.InvalidToken):
        if succeeded:
            client().send_task_success(taskToken=task_token, output="{}")
        else:
            client().send_task_failure(taskToken=task_token, error="InputFailed", cause="The record holds the reason.")


def _arn(batch: Batch) -> str:
    machine = settings().batch_state_machine_arn.replace(":stateMachine:", ":execution:")
    return f"{machine}:{current_execution(batch)}"
