"""The FinishBatch state, and the target of the rule on batches that died: writes what came of the inputs."""

from typing import Any

from pydantic import AliasPath, BaseModel, Field, TypeAdapter

from stepagent.batches.finishing import batch_execution_ended, finish_batch
from stepagent.batches.models import BatchKey, BatchStatus
from stepagent.observe import observed


class BatchToFinish(BaseModel):
    """From the state machine; there is an error where not all inputs were run."""

    batch: BatchKey
    error: str = ""


class EndedExecution(BaseModel):
    """From EventBridge; only some ends have an error."""

    name: str = Field(validation_alias=AliasPath("detail", "name"))
    status: str = Field(validation_alias=AliasPath("detail", "status"))
    error: str | None = Field(None, validation_alias=AliasPath("detail", "error"))


_event: TypeAdapter[BatchToFinish | EndedExecution] = TypeAdapter(BatchToFinish | EndedExecution)


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    match _event.validate_python(event):
        case BatchToFinish() as given:
            batch = finish_batch(given.batch, given.error)
            failed = batch.status is BatchStatus.FAILED
            return {"error": batch.failure.code if failed and batch.failure else ""}
        case EndedExecution() as ended:
            batch_execution_ended(ended.name, ended.error or ended.status)
    return {}
