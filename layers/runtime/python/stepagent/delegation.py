"""Calls that other executions answer: another agent's run, or a state machine of somebody else.

The state RunWorkflow waits with a task token, as for a person. Arguments and results pass through no state: the
execution is started here, and whoever ends it leads back here by the name that it was started with.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from stepagent.agents import ToolSpec
from stepagent.catalog import find_agent
from stepagent.clock import now
from stepagent.errors import NotFound, RecordConflict, ToolError
from stepagent.executions import Ended, ended_execution, resume_execution, start_execution, start_workflow_execution
from stepagent.journal import Journal
from stepagent.messages import UserMessage
from stepagent.runs import (
    ENDED,
    Call,
    CallAddress,
    CallKey,
    CallResult,
    CallStatus,
    Run,
    RunId,
    RunKey,
    RunStatus,
    SessionKey,
)
from stepagent.store.calls import claim_call, load_call
from stepagent.store.delegations import Delegation, find_delegation, put_delegation
from stepagent.store.runs import count_usage, create_run, require_run
from stepagent.tools.execution import announce_start, error_result, finish_call, refusal_of, to_result

_SUB_SESSION = "0"  # no session of a person begins so: their keys are base32, which has no zero


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
    text = run.answer if run.status is RunStatus.COMPLETED else _failure_text(run)
    is_error = run.status is not RunStatus.COMPLETED
    result = to_result(RunKey.parse(delegation.run_id), _call(delegation), text, is_error=is_error)
    if _answer(delegation, result):
        count_usage(RunKey.parse(delegation.run_id), run.usage)


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
        else:
            start_execution(child.run_id)
    elif finished := start_workflow_execution(tool.target, name, call.all_arguments):
        finish_workflow(name, finished)


def _sub_run(run: Run, call: Call, tool: ToolSpec, run_id: RunId) -> Run:
    """The run of the agent, made if it is not there yet."""
    try:
        found = find_agent(tool.target)
    except NotFound as error:
        raise ToolError(f"There is no agent {tool.target!r} any more. Do without it.") from error
    here = CallAddress(run_id=run.run_id, call_id=call.call_id)
    child = Run(
        run_id=run_id,
        session_id=f"{run.run_id}/{call.call_id}",
        owner=run.owner,
        agent=found.agent,
        tools=found.tools,
        versions=found.versions,
        created_at=now(),
        parent=here,
        top=run.top or here,
        depth=run.depth + 1,
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


def _call(delegation: Delegation) -> Call:
    return load_call(RunKey.parse(delegation.run_id), CallKey.parse(delegation.call_id)).call


def _failure_text(run: Run) -> str:
    return f"The agent ended without an answer: {run.failure.message if run.failure else run.status}"


def _workflow_result(run: RunKey, call: Call, ended: Ended) -> CallResult:
    if ended.error is not None:
        return to_result(run, call, f"The workflow failed: {ended.error}", is_error=True)
    value = json.loads(ended.output)
    return to_result(run, call, value if isinstance(value, str) else ended.output)


def _answer(delegation: Delegation, result: CallResult) -> bool:
    """Stores the result and lets the loop go on; False where the call had one. Both may be repeated."""
    run = RunKey.parse(delegation.run_id)
    with Journal(run.run_id) as journal:
        stored = finish_call(journal, run, _call(delegation), result)
    resume_execution(delegation.task_token)
    return stored
