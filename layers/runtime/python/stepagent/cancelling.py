"""Cancelling a run: what did not begin never does, and what began says so."""

from contextlib import suppress

from stepagent.budget import calls_of
from stepagent.delegation import sub_run_of
from stepagent.delivering import close_question
from stepagent.ending import CANCELLED, end_run, tell_end
from stepagent.errors import NotFound
from stepagent.executions import stop_execution
from stepagent.journal import Journal
from stepagent.runs import ENDED, Call, CallStatus, Run, RunKey, RunStatus
from stepagent.store.calls import claim_call
from stepagent.store.conversation import load_history
from stepagent.store.runs import require_run
from stepagent.telemetry import CallEnd
from stepagent.tools.execution import error_result, finish_call

_NOT_RUN = "Not run: the task was cancelled before."
_BEGAN = "The task was cancelled while this ran. Its effects are unknown: check before you repeat it."
_NOT_ANSWERED = "The task was cancelled before a person answered."


def cancel_run(run_id: str) -> Run:
    """Ends a run and its open calls, and those of the agents that it called. A run that has ended stays as it is.

    The run is marked first: from then on no turn of it can be stored and nobody can be asked, so the calls and
    questions that are there are all. Every step may be repeated.

    Raises:
        NotFound: there is no such run.
    """
    run = require_run(run_id)
    ended = run if run.status in ENDED else end_run(run, CANCELLED)
    if ended.status is RunStatus.CANCELLED:
        _end_calls(ended)
        try:
            tell_end(require_run(run_id))  # with what the agents spent that it called
        finally:  # the rule on executions that died has its end told where this did not
            stop_execution(ended)
    return ended


def _end_calls(run: Run) -> None:
    """Gives each open call its result."""
    calls = calls_of(run, load_history(run.key.session))
    for question in run.pending:
        close_question(question)
    with Journal(run.run_id) as journal:
        for call in calls:
            if call.status is not CallStatus.DONE:
                _end_call(journal, run, call)
            cancel_sub_run(run.key, call)


def _end_call(journal: Journal, run: Run, call: Call) -> None:
    claimed = claim_call(run.key, call.key)  # whoever would begin it now comes too late
    if claimed.call.status is CallStatus.DONE:
        return
    asks = claimed.question and not claimed.call.needs_approval  # one that was approved has begun
    asked = _NOT_ANSWERED if asks else _BEGAN
    finish_call(journal, run.key, call, error_result(_NOT_RUN if claimed.ours else asked), CallEnd(error="Cancelled"))


def cancel_sub_run(run: RunKey, call: Call) -> None:
    """Ends the run of the agent that a call asked, or that carries out a step, if it asked one and that has begun.

    The call must have its result before: what begins the agent looks at that after it made the agent's run, and so one
    of the two sees the other. Where only the caller has ended, the agent's own first turn finds that.
    """
    if call.is_run:
        with suppress(NotFound):
            cancel_run(sub_run_of(run, call.key))
