"""A run whose execution was lost goes on from its record: another execution takes its place.

The record is all that an execution stands on. Another one begins at the last turn that was decided, so no model is
asked for it again, and enters its calls again: those that are done stay done, questions wait with a new token, and what
had begun runs again only where its tool is idempotent.
"""

from stepagent.executions import LOST, current_execution, execution_status, start_execution
from stepagent.observe import logger
from stepagent.runs import ENDED, Run
from stepagent.store.runs import count_execution

MAX_RESUMPTIONS = 3


def ensure_execution(run: Run) -> Run | None:
    """The run with an execution that carries it on, which is another one where the last one was lost.

    None where the run has ended, its execution came to an end of its own, or was lost more often than is good. Any
    number of callers start one execution, since all of them give it the same name.
    """
    if run.status in ENDED:
        return None
    status = execution_status(run)
    if status == "RUNNING":
        return run
    if status is None:  # whoever recorded it has not started it yet, or died; of two who start it, one does
        return _started(run)
    if status == LOST and run.resumptions < MAX_RESUMPTIONS:
        return _started(count_execution(run))
    return None


def _started(run: Run) -> Run:
    if start_execution(run):
        facts = {"run_id": run.run_id, "execution": current_execution(run), "turn": run.turns}
        logger.warning("execution started for a run that had none alive", extra=facts)
    return run
