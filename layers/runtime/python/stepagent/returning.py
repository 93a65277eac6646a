"""Results of executions, returned to the calls that asked for them: an agent's answer, a workflow's output.

Whoever ends an execution finds by its name which call waits for it. Every step may be repeated.
"""

from stepagent.budget import calls_of, waited_s
from stepagent.clock import now
from stepagent.executions import answer_each, resume_execution
from stepagent.journal import Journal
from stepagent.runs import Call, CallKey, CallResult, Run, RunKey, RunStatus
from stepagent.store.calls import load_call
from stepagent.store.conversation import load_history
from stepagent.store.delegations import Delegation, count_for_caller, find_delegation
from stepagent.telemetry import UNTIMED, CallEnd
from stepagent.tools.execution import finish_call, to_result

_ASKING = frozenset({"interactive", "agent"})  # kinds of tools whose calls may wait for people


def answer_parent(run: Run) -> None:
    """Gives the call that asked for an agent's run the answer that it came to; does nothing for other runs.

    Raises:
        NotFound: the run that asked is gone.
    """
    delegation = find_delegation(run.run_id) if run.parent else None
    if delegation is None:
        return
    caller, is_error = RunKey.parse(delegation.run_id), run.status is not RunStatus.COMPLETED
    # Before the answer, after which the next turn looks at what is spent; and also where the call has a result already.
    count_for_caller(run.run_id, caller, run.usage)
    text = _failure_text(run) if is_error else run.answer
    call = call_of(delegation)
    result = to_result(caller, call, text, is_error=is_error)
    idle_s = _waited_s(run)
    worked_s = ((run.ended_at or now()) - run.created_at).total_seconds() - idle_s
    error = run.failure.code if run.failure else run.status.value if is_error else ""
    return_result(delegation, call, result.model_copy(update={"waited_s": idle_s}), CallEnd(worked_s, error))


def return_result(delegation: Delegation, call: Call, result: CallResult, end: CallEnd = UNTIMED) -> None:
    """Stores the result of the call that waits, unless it has one, and lets the loop go on."""
    run = RunKey.parse(delegation.run_id)
    with Journal(run.run_id) as journal:
        finish_call(journal, run, call, result, end)
    answer_each(delegation.task_tokens, resume_execution)


def call_of(delegation: Delegation) -> Call:
    return load_call(RunKey.parse(delegation.run_id), CallKey.parse(delegation.call_id)).call


def _waited_s(run: Run) -> int:
    """Seconds for which the run waited for people, which are none of the time of the run that asked for it."""
    if not run.plan and not any(tool.kind in _ASKING or tool.approval != "never" for tool in run.tools):
        return 0
    return waited_s(calls_of(run, load_history(run.key.session)))


def _failure_text(run: Run) -> str:
    return f"The agent ended without an answer: {run.failure.message if run.failure else run.status}"
