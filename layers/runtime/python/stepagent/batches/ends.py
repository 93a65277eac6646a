"""What the end of a run means for the input that it answers."""

from stepagent.batches.executions import answer_state
from stepagent.batches.models import batch_key
from stepagent.executions import answer_each
from stepagent.runs import Run, RunStatus
from stepagent.store.batches import close_input


def end_input(run: Run) -> None:
    """Ends the input that an ended run answers, and lets its batch go on; does nothing for other runs. May be repeated.

    Raises:
        NotFound: the batch has no such input.
    """
    if run.batch is None:
        return
    succeeded = run.status is RunStatus.COMPLETED
    key = batch_key(run.owner, run.batch.batch_id)
    standing = close_input(key, run.batch.n, succeeded=succeeded, by=run.run_id)
    answer_each(standing.task_tokens, lambda token: answer_state(token, succeeded=succeeded))
