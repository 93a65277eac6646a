"""The PrepareBatch state: brings the inputs of a batch into order."""

from typing import Any

from pydantic import BaseModel

from stepagent.batches.models import BatchKey
from stepagent.batches.preparing import prepare_batch
from stepagent.observe import observed


class BatchToPrepare(BaseModel):
    batch: BatchKey


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return prepare_batch(BatchToPrepare.model_validate(event).batch).model_dump(mode="json")
