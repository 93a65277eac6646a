"""Calls that failed outside their function, or that nobody answered: what the RecordCallFailure state records."""

from stepagent.cancelling import cancel_sub_run
from stepagent.delivering import give_up
from stepagent.journal import Journal
from stepagent.runs import Call, CallKey, RunKey
from stepagent.store.calls import claim_call, load_call
from stepagent.telemetry import CallEnd
from stepagent.tools.execution import error_result, finish_call

_TIME_OUT = "States.Timeout"
_UNKNOWN = "Its effects are unknown: check before you repeat it."
_TIMED_OUT = f"The tool did not answer in time. {_UNKNOWN}"
_FAILURES = {
    _TIME_OUT: _TIMED_OUT,
    "Sandbox.Timedout": _TIMED_OUT,
    "Lambda.ResourceNotFoundException": "The tool's function does not exist. Do without this tool.",
}


def record_failure(run_id: str, call_id: str, error: str) -> None:
    """Gives a call whose function could not do so itself its one result; an earlier result stands.

    Args:
        run_id: the run.
        call_id: the call.
        error: the error's name, as the state machine knows it.
    """
    run, key = RunKey.parse(run_id), CallKey.parse(call_id)
    found = load_call(run, key)
    if found.question and give_up(found.question, found.call, timed_out=error == _TIME_OUT):
        return
    claimed = claim_call(run, key)
    with Journal(run.run_id) as journal:
        result = error_result(_failure_text(claimed.call, error, began=not claimed.ours))
        finish_call(journal, run, claimed.call, result, CallEnd(error=error))
    cancel_sub_run(run, claimed.call)


def _failure_text(call: Call, error: str, *, began: bool) -> str:
    if call.needs_approval and not call.approved:
        return f"Nobody could be asked to approve it ({error}), so it was not run."
    if call.kind in ("interactive", "plan"):
        return f"Nobody could be asked ({error})."
    if not began:
        return _FAILURES.get(error, f"The tool could not be begun ({error}), so it was not run.")
    unknown = "" if call.idempotent else f" {_UNKNOWN}"
    return _FAILURES.get(error, f"The tool failed ({error}).{unknown}")
