"""The FinishBatch state, and the target of the rule on batches that died: writes what came of the inputs."""

from typing import Any

from pydantic import BaseModel, TypeAdapter

from stepagent.batches.finishing import batch_execution_ended, finish_batch
from stepagent.batches.models import BatchKey, BatchStatus
from stepagent.executions import EndedExecution
from stepagent.observe import observed


class BatchToFinish(BaseModel):
    """From the state machine; there is an error where not all inputs were run."""

    batch: BatchKey
    error: str = ""


_event: TypeAdapter[BatchToFinish | EndedExecution] = TypeAdapter(BatchToFinish | EndedExecution)


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    match _event.validate_python(event):
        case BatchToFinish() as given:
            batch = finish_batch(given.batch, given.error)
            failed = batch.status is BatchStatus.FAILED
            return {"error": batch.failure.code if failed and batch.failure else ""}
        case EndedExecution() as ended:
            batch_execution_ended(ended.name, ended.why)
    return {}
