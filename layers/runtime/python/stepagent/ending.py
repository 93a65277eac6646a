"""How a run ends: its record is closed once, and whoever follows it is told once."""

from stepagent.delegation import answer_parent
from stepagent.delivering import close_question
from stepagent.executions import LOST, SERVICE_RESTART, ExecutionName
from stepagent.journal import Journal
from stepagent.observe import count_end
from stepagent.resuming import MAX_RESUMPTIONS, ensure_execution
from stepagent.runs import ENDED, Failure, Outcome, Run, RunStatus, StopReason
from stepagent.store.journal import EventType
from stepagent.store.runs import close_run, require_run

_EVENTS: dict[RunStatus, EventType] = {
    RunStatus.COMPLETED: "run.completed",
    RunStatus.FAILED: "run.failed",
    RunStatus.CANCELLED: "run.cancelled",
}
_EXPLANATIONS = {
    "States.Timeout": "A step of the run took longer than it may.",
    "Sandbox.Timedout": "A function of the run took longer than it may.",
    "States.DataLimitExceeded": "A step of the run produced more data than a state may hold.",
    "ABORTED": "The run was stopped from outside.",
    "TIMED_OUT": "The run took longer than it may.",
    LOST: "The execution of the run was lost.",
    SERVICE_RESTART: "The execution of the run was lost.",
}


def announce_end(journal: Journal, outcome: Outcome) -> None:
    """Writes the run's last event; the journal drops it where there is one."""
    failure = outcome.failure.model_dump() if outcome.failure else None
    journal.emit(_EVENTS[outcome.status], stop_reason=outcome.stop_reason, failure=failure)


def announce_end_of(run: Run) -> None:
    """Says the end of an ended run again, in case that whoever ended it did not come to saying it."""
    with Journal(run.run_id) as journal:
        announce_end(journal, outcome_of(run))
    answer_parent(run)


def outcome_of(run: Run) -> Outcome:
    return Outcome(run.status, run.stop_reason or StopReason.FAILED, run.answer, run.failure)


def execution_ended(name: str, error: str) -> None:
    """Hears of an execution that did not succeed: its run goes on in another one if it was lost, and is closed if not.

    Args:
        name: of the execution. Where others have taken its place since, it tells nothing of the run.
        error: the name of the error that ended it, or its status.

    Raises:
        NotFound: there is no such run.
    """
    run_id, number = ExecutionName.parse(name)
    run = require_run(run_id)
    if number < run.executions:
        ensure_execution(run)  # whoever counted the one in its place may have died before its start
    elif error != SERVICE_RESTART or ensure_execution(run) is None:
        finalize(run_id, error)


def finalize(run_id: str, error: str) -> None:
    """Closes a run that can no longer close itself, and tells its followers. Does nothing twice.

    Args:
        run_id: the run.
        error: the name of the error that ended the execution, or the execution's status.

    Raises:
        NotFound: there is no such run.
    """
    run = require_run(run_id)
    if run.status not in ENDED:
        if close_run(run, Outcome(RunStatus.FAILED, StopReason.FAILED, failure=run.failure or _explain(run, error))):
            count_end(run.agent.name, StopReason.FAILED)
        run = require_run(run_id)
    for question in run.pending:  # of the run as it is now: once it has ended, nobody can be asked any more
        close_question(question)
    announce_end_of(run)


def _explain(run: Run, error: str) -> Failure:
    if error in (LOST, SERVICE_RESTART) and run.executions > MAX_RESUMPTIONS:
        text = f"The run was resumed {MAX_RESUMPTIONS} times, and its execution was lost again."
        return Failure(code="internal_error", message=text)
    text = _EXPLANATIONS.get(error, f"A step of the run failed ({error}). The logs of its functions say why.")
    return Failure(code="internal_error", message=text)
