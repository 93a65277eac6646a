"""Calls that other executions answer: another agent's run, or a state machine of somebody else.

The state RunWorkflow waits with a task token, as for a person. Arguments and results pass through no state: the
execution is started here, and whoever ends it leads back here by the name that it was started with.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from stepagent.budget import calls_of, waited_s, within_what_is_left
from stepagent.catalog import find_agent
from stepagent.clock import now
from stepagent.errors import NotFound, RecordConflict, ToolError
from stepagent.executions import (
    Ended,
    current_execution,
    ended_execution,
    resume_execution,
    start_execution,
    start_workflow_execution,
)
from stepagent.journal import Journal
from stepagent.messages import UserMessage
from stepagent.resuming import ensure_execution
from stepagent.runs import (
    ENDED,
    Call,
    CallAddress,
    CallKey,
    CallResult,
    CallStatus,
    Outcome,
    Run,
    RunId,
    RunKey,
    RunStatus,
    SessionKey,
    StopReason,
)
from stepagent.store.calls import claim_call, load_call
from stepagent.store.conversation import load_history
from stepagent.store.delegations import Delegation, count_for_caller, find_delegation, put_delegation
from stepagent.store.runs import close_run, create_run, require_run
from stepagent.tool_specs import ToolSpec
from stepagent.tools.execution import announce_start, error_result, finish_call, refusal_of, to_result

_SUB_SESSION = "0"  # no session of a person begins so: their keys are base32, which has no zero
_ASKING = frozenset({"interactive", "agent"})  # kinds of tools whose calls may wait for people


def start_workflow(run_id: str, call_id: str, task_token: str) -> None:
    """Starts what answers a call. Every step may be repeated: the execution's name is the call's.

    Raises:
        NotFound: there is no such run or call.
    """
    run, key = require_run(run_id), CallKey.parse(call_id)
    claimed = claim_call(run.key, key)
    call, tool = claimed.call, run.tool(claimed.call.name)
    assert tool is not None  # the run keeps the tools of its calls
    name = execution_name(run, call)
    put_delegation(name, Delegation(run.run_id, call.call_id, task_token))
    if call.status is CallStatus.DONE:
        resume_execution(task_token)
        return
    with Journal(run.run_id) as journal:
        if claimed.ours:
            announce_start(journal, call)
        try:
            if refusal := refusal_of(call):
                raise ToolError(refusal)
            _start(run, call, tool, name)
        except ToolError as error:
            finish_call(journal, run.key, call, error_result(error.message))
            resume_execution(task_token)


def finish_workflow(name: str, execution_arn: str) -> None:
    """Gives the call that started an execution of another state machine its result; knows executions by their name."""
    delegation = find_delegation(name)
    if delegation is None:
        return
    run, call = RunKey.parse(delegation.run_id), _call(delegation)
    _answer(delegation, _workflow_result(run, call, ended_execution(execution_arn)))


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
    result = to_result(caller, _call(delegation), text, is_error=is_error)
    _answer(delegation, result.model_copy(update={"waited_s": _waited_s(run)}))


def sub_run_of(run: RunKey, call: CallKey) -> RunId:
    """The run that answers a call of kind `agent`. Derived from the call, so that a call has one."""
    digest = hashlib.sha256(f"{run.run_id}/{call.call_id}".encode()).hexdigest()
    return RunKey(SessionKey(_SUB_SESSION + digest[:31]), 1).run_id


def execution_name(run: Run, call: Call) -> str:
    """The name of the execution that answers a call: its run's id, or one made of run and call."""
    return sub_run_of(run.key, call.key) if call.kind == "agent" else f"{run.run_id}-{call.call_id}"


def _start(run: Run, call: Call, tool: ToolSpec, name: str) -> None:
    """Starts an agent's run or a workflow; one that has ended meanwhile answers the call at once.

    Raises:
        ToolError: it cannot be started, and why.
    """
    if call.kind == "agent":
        child = _sub_run(run, call, tool, RunId(name))
        if child.status in ENDED:
            answer_parent(child)
            return
        if _is_over(run, call):  # whoever gave the call up may have looked for the run before it was there
            close_run(child, Outcome(RunStatus.CANCELLED, StopReason.CANCELLED))
        # A run that has ended is told to who follows it, and asks no model; one that was lost with its caller goes on.
        if not start_execution(current_execution(child)):
            ensure_execution(child)
    elif finished := start_workflow_execution(tool.target, name, call.all_arguments):
        finish_workflow(name, finished)


def _sub_run(run: Run, call: Call, tool: ToolSpec, run_id: RunId) -> Run:
    """The run of the agent, made if it is not there yet."""
    try:
        found = find_agent(tool.target)
    except NotFound as error:
        raise ToolError(f"There is no agent {tool.target!r} any more. Do without it.") from error
    limits = within_what_is_left(found.agent.limits, run)
    here = CallAddress(run_id=run.run_id, call_id=call.call_id)
    child = Run(
        run_id=run_id,
        session_id=f"{run.run_id}/{call.call_id}",
        owner=run.owner,
        agent=found.agent.model_copy(update={"limits": limits}),
        tools=found.tools,
        versions=found.versions,
        created_at=now(),
        parent=here,
        top=run.top or here,
        depth=run.depth + 1,
        used_key=run.used_key,
    )
    try:
        create_run(child, [UserMessage(text=_task(call.all_arguments))])
    except RecordConflict:  # this state was entered before
        return require_run(run_id)
    return child


def _task(arguments: Mapping[str, Any]) -> str:
    """What the other agent is told: its task, or the arguments as they are where a row describes others."""
    task = arguments.get("task")
    return task if isinstance(task, str) and len(arguments) == 1 else json.dumps(arguments, ensure_ascii=False)


def _is_over(run: Run, call: Call) -> bool:
    """Whether nobody waits for the call any more: it has a result, or its run has ended."""
    return load_call(run.key, call.key).call.status is CallStatus.DONE or require_run(run.run_id).status in ENDED


def _waited_s(run: Run) -> int:
    """Seconds for which the run waited for people, which are none of the time of the run that asked for it."""
    if not any(tool.kind in _ASKING or tool.approval != "never" for tool in run.tools):
        return 0
    return waited_s(calls_of(run, load_history(run.key.session)))


def _call(delegation: Delegation) -> Call:
    return load_call(RunKey.parse(delegation.run_id), CallKey.parse(delegation.call_id)).call


def _failure_text(run: Run) -> str:
    return f"The agent ended without an answer: {run.failure.message if run.failure else run.status}"


def _workflow_result(run: RunKey, call: Call, ended: Ended) -> CallResult:
    if ended.error is not None:
        return to_result(run, call, f"The workflow failed: {ended.error}", is_error=True)
    value = json.loads(ended.output)
    return to_result(run, call, value if isinstance(value, str) else ended.output)


def _answer(delegation: Delegation, result: CallResult) -> None:
    """Stores the result, unless the call has one, and lets the loop go on. Both may be repeated."""
    run = RunKey.parse(delegation.run_id)
    with Journal(run.run_id) as journal:
        finish_call(journal, run, _call(delegation), result)
    resume_execution(delegation.task_token)
