"""How a run ends: its record is closed once, and whoever follows it or waits for it is told.

Whoever closes a run tells of it, too. Should he die in between, the next one who finds the run ended tells in his
place: the turn that is run again, the state that records failures, or the rule on executions that died.
"""

from stepagent.batches.ends import end_input
from stepagent.delivering import close_question
from stepagent.executions import LOST, SERVICE_RESTART, ExecutionName
from stepagent.journal import Journal
from stepagent.notifying import notify_end
from stepagent.replies.promise import promise_reply
from stepagent.resuming import MAX_RESUMPTIONS, ensure_execution
from stepagent.returning import answer_parent
from stepagent.runs import ENDED, Failure, Outcome, Run, RunStatus, StopReason
from stepagent.store.journal import EventType
from stepagent.store.runs import close_run, mark_told, require_run
from stepagent.telemetry import count_end

CANCELLED = Outcome(RunStatus.CANCELLED, StopReason.CANCELLED)

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


def end_run(run: Run, outcome: Outcome) -> Run:
    """Closes a run, unless it has ended, and counts it. Returns it as it is then, for `tell_end`."""
    if close_run(run, outcome):
        count_end(run.agent.name, outcome.stop_reason)
    return require_run(run.run_id)


def tell_end(run: Run) -> None:
    """Tells of an ended run: who follows it, whoever asked for it, and the people whom it asks no more.

    May be repeated: what was told is told once.
    """
    for question in run.pending:  # of the run as it is now: once it has ended, nobody can be asked any more
        close_question(question)
    with Journal(run.run_id) as journal:
        _announce(journal, Outcome(run.status, run.stop_reason or StopReason.FAILED, failure=run.failure))
    tell_others(run)


def note_end(journal: Journal, run: Run, outcome: Outcome) -> None:
    """Counts a run that was closed together with its last turn, and writes its last event. `tell_others` follows."""
    count_end(run.agent.name, outcome.stop_reason)
    _announce(journal, outcome)


def tell_others(run: Run) -> None:
    """Tells of an ended run those who do not follow it: its batch, the run that asked for it, or who hears of any run.

    Raises:
        RecordUnavailable: its result could not be promised; whoever tells of it must do so again.
    """
    end_input(run)
    if run.parent:
        answer_parent(run)
    elif not run.told:
        promise_reply(run)
        notify_end(run)
        # Of another end several hear: the state that records it, the rule, whoever cancelled the run.
        if run.status is not RunStatus.COMPLETED:
            mark_told(run)


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
        failure = run.failure or _explain(run, error)
        run = end_run(run, Outcome(RunStatus.FAILED, StopReason.FAILED, failure=failure))
    tell_end(run)


def _announce(journal: Journal, outcome: Outcome) -> None:
    """Writes the run's last event; the journal drops it where there is one."""
    failure = outcome.failure.model_dump() if outcome.failure else None
    journal.emit(_EVENTS[outcome.status], stop_reason=outcome.stop_reason, failure=failure)


def _explain(run: Run, error: str) -> Failure:
    if error in (LOST, SERVICE_RESTART) and run.resumptions >= MAX_RESUMPTIONS:
        text = f"The run was resumed {MAX_RESUMPTIONS} times, and its execution was lost again."
        return Failure(code="internal_error", message=text)
    text = _EXPLANATIONS.get(error, f"A step of the run failed ({error}). The logs of its functions say why.")
    return Failure(code="internal_error", message=text)
