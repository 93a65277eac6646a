"""Batches begun, gone on with and cancelled."""

from stepagent.batches.executions import execution_status, start_execution, stop_execution
from stepagent.batches.models import Batch, BatchKey, BatchStatus, Pace
from stepagent.errors import RecordConflict
from stepagent.observe import logger
from stepagent.store.batches import (
    count_batch_execution,
    create_batch,
    mark_cancelling,
    require_batch,
)


def start_batch(batch: Batch) -> Batch:
    """Begins a batch; one of the same id goes on with what is left of it, where it stopped before its end.

    Returns it as it stands then: the caller sees by its digest whether it is the same.
    """
    try:
        create_batch(batch)
    except RecordConflict:
        found = require_batch(batch.key)
        return go_on(found, batch.pace) if found.digest == batch.digest else found
    start_execution(batch)
    return batch


def go_on(batch: Batch, pace: Pace) -> Batch:
    """Has a batch go on that lost its execution, or failed; inputs that ended stay as they are."""
    if batch.status is not BatchStatus.FAILED:
        ensure_batch_execution(batch)
        return require_batch(batch.key)
    again = count_batch_execution(batch, pace)
    start_execution(again)
    return again


def ensure_batch_execution(batch: Batch) -> bool:
    """Has an execution carry a batch on, which is another one where the last one ended; False where the batch is over.

    Any number of callers start one execution, since all of them give it the same name.
    """
    if batch.status is not BatchStatus.RUNNING:
        return False
    status = execution_status(batch)
    if status is None:  # whoever recorded it has not started it yet, or died; of two who start it, one does
        start_execution(batch)
    elif status != "RUNNING":
        again = count_batch_execution(batch, batch.pace)
        start_execution(again)
        logger.warning("batch goes on in another execution", extra={"batch": batch.key, "number": again.executions})
    return True


def cancel_batch(key: BatchKey) -> Batch:
    """Ends a batch; one that has ended stays as it is. No input begins from then on.

    The rule on executions that were stopped has its runs cancelled, and what came of the inputs written.

    Raises:
        NotFound: there is no such batch.
    """
    batch = mark_cancelling(key)
    if batch.status is BatchStatus.CANCELLING:
        if execution_status(batch) == "RUNNING":
            stop_execution(batch)
        else:  # nothing would be heard of it, so another one finishes it
            start_execution(count_batch_execution(batch, batch.pace))
    return batch
