"""Calls that other executions answer: the run of another agent or of a step, or a state machine of somebody else.

The state RunWorkflow waits with a task token, as for a person. Arguments and results pass through no state: the
execution is started here, and whoever ends it leads back here by the name that it was started with.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stepagent.budget import within_what_is_left
from stepagent.catalog import FoundAgent, find_agent
from stepagent.clock import now
from stepagent.ending import CANCELLED, end_run, tell_end
from stepagent.errors import NotFound, RecordConflict, ToolError
from stepagent.executions import (
    Ended,
    answer_each,
    ended_execution,
    resume_execution,
    start_execution,
    start_workflow_execution,
)
from stepagent.journal import Journal
from stepagent.messages import Message, UserMessage
from stepagent.planning.steps import earlier_try, step_agent, step_message
from stepagent.resuming import ensure_execution
from stepagent.returning import call_of, return_result
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
    SessionKey,
)
from stepagent.store.calls import claim_call, load_call
from stepagent.store.conversation import load_conversation, load_history
from stepagent.store.delegations import create_called_run, find_delegation, note_waiting
from stepagent.store.runs import require_run
from stepagent.tool_specs import ToolSpec
from stepagent.tools.execution import announce_start, error_result, finish_call, refusal_of, to_result

_SUB_SESSION = "0"  # no session of a person begins so: their keys are base32, which has no zero


def start_workflow(run_id: str, call_id: str, task_token: str) -> None:
    """Starts what answers a call. Every step may be repeated: the execution's name is the call's.

    Raises:
        NotFound: there is no such run or call.
    """
    run, key = require_run(run_id), CallKey.parse(call_id)
    claimed = claim_call(run.key, key)
    call, name = claimed.call, execution_name(run, claimed.call)
    if call.status is CallStatus.DONE:
        resume_execution(task_token)
        return
    with Journal(run.run_id) as journal:
        if claimed.ours:
            _announce_start(journal, call, name)
        try:
            if refusal := refusal_of(call):
                raise ToolError(refusal)
            _start(run, call, name, task_token)
            if not claimed.ours and not call.is_run and load_call(run.key, key).call.status is CallStatus.DONE:
                resume_execution(task_token)  # its workflow ended before it was known that this state waits
        except ToolError as error:
            finish_call(journal, run.key, call, error_result(error.message))
            resume_execution(task_token)


def finish_workflow(name: str, execution_arn: str) -> None:
    """Gives the call that started an execution of another state machine its result; knows executions by their name."""
    delegation = find_delegation(name)
    if delegation is None:
        return
    run, call = RunKey.parse(delegation.run_id), call_of(delegation)
    return_result(delegation, call, _workflow_result(run, call, ended_execution(execution_arn)))
    if (now_waiting := find_delegation(name)) and (later := now_waiting.task_tokens - delegation.task_tokens):
        answer_each(later, resume_execution)  # its state was entered anew meanwhile


def sub_run_of(run: RunKey, call: CallKey) -> RunId:
    """The run that answers a call, if one does. Derived from the call, so that a call has one."""
    digest = hashlib.sha256(f"{run.run_id}/{call.call_id}".encode()).hexdigest()
    return RunKey(SessionKey(_SUB_SESSION + digest[:31]), 1).run_id


def execution_name(run: Run, call: Call) -> str:
    """The name of the execution that answers a call: its run's id, or one made of run and call."""
    return sub_run_of(run.key, call.key) if call.is_run else f"{run.run_id}-{call.call_id}"


def _announce_start(journal: Journal, call: Call, name: str) -> None:
    if call.is_step:
        facts = {each: call.arguments[each] for each in ("title", "attempt")}
        journal.emit("step.started", id=call.arguments["step"], **facts, run_id=name, call_id=call.call_id)
    else:
        announce_start(journal, call, **({"run_id": name} if call.is_run else {}))


def _start(run: Run, call: Call, name: str, task_token: str) -> None:
    """Starts the run of an agent or of a step, or a workflow; one that has ended meanwhile answers the call at once.

    Raises:
        ToolError: it cannot be started, and why.
    """
    if call.is_run:
        child = _sub_run(run, call, RunId(name), task_token)
        if child.status not in ENDED and _is_over(run, call):
            # Whoever gave the call up may have looked for the run before it was there.
            child = end_run(child, CANCELLED)
        if child.status in ENDED:
            tell_end(child)
        elif not start_execution(child):  # one that was lost with its caller goes on
            ensure_execution(child)
        return
    note_waiting(name, run.run_id, call.call_id, task_token)
    if finished := start_workflow_execution(_tool(run, call).target, name, call.all_arguments):
        finish_workflow(name, finished)


class _Asked(NamedTuple):
    """Who answers a call, and what they are told."""

    found: FoundAgent
    message: UserMessage
    system: str = ""


def _sub_run(run: Run, call: Call, run_id: RunId, task_token: str) -> Run:
    """The run of the agent or of the step, made if it is not there yet; whoever ends it finds that the call waits."""
    asked = _step(run, call) if call.is_step else _agent(run, call)
    here = CallAddress(run_id=run.run_id, call_id=call.call_id)
    child = Run(
        run_id=run_id,
        session_id=f"{run.run_id}/{call.call_id}",
        owner=run.owner,
        agent=asked.found.agent,
        tools=asked.found.tools,
        versions=asked.found.versions,
        system=asked.system,
        created_at=now(),
        parent=here,
        top=run.top or here,
        depth=run.depth + 1,
        used_key=run.used_key,
    )
    try:
        create_called_run(child, here, [asked.message], task_token)
    except RecordConflict:  # this state was entered before
        note_waiting(run_id, run.run_id, call.call_id, task_token)
        return require_run(run_id)
    return child


def _agent(run: Run, call: Call) -> _Asked:
    """The agent that the call asks, as it stands now."""
    target = _tool(run, call).target
    try:
        found = find_agent(target)
    except NotFound as error:
        raise ToolError(f"There is no agent {target!r} any more. Do without it.") from error
    limits = within_what_is_left(found.agent.limits, run)
    found = found._replace(agent=found.agent.model_copy(update={"limits": limits}))
    return _Asked(found, UserMessage(text=_task(call.all_arguments)))


def _step(run: Run, call: Call) -> _Asked:
    """The run's own agent, with the copies that the run keeps of it and of its tools."""
    entries = load_conversation(run.key)
    found = FoundAgent(step_agent(run, call, entries, now()), run.tools, run.versions)
    return _Asked(found, step_message(call, entries, _tried(run, call, entries)), run.system)


def _tried(run: Run, call: Call, entries: Sequence[Message | Call]) -> list[Call]:
    """What earlier tries at a step called, the first try first."""
    before = earlier_try(call, entries)
    if before is None:
        return []
    own = load_history(RunKey.parse(sub_run_of(run.key, before.key)).session)
    return [*_tried(run, before, entries), *(entry for entry in own if isinstance(entry, Call))]


def _tool(run: Run, call: Call) -> ToolSpec:
    tool = run.tool(call.name)
    assert tool is not None  # the run keeps the tools of its calls
    return tool


def _task(arguments: Mapping[str, Any]) -> str:
    """What the other agent is told: its task, or the arguments as they are where a row describes others."""
    task = arguments.get("task")
    return task if isinstance(task, str) and len(arguments) == 1 else json.dumps(arguments, ensure_ascii=False)


def _is_over(run: Run, call: Call) -> bool:
    """Whether nobody waits for the call any more: it has a result, or its run had ended when it was loaded.

    Of a run that has ended since, and left its call without a result, the called agent's own first turn finds that.
    """
    return run.status in ENDED or load_call(run.key, call.key).call.status is CallStatus.DONE


def _workflow_result(run: RunKey, call: Call, ended: Ended) -> CallResult:
    if ended.error is not None:
        return to_result(run, call, f"The workflow failed: {ended.error}", is_error=True)
    value = json.loads(ended.output)
    return to_result(run, call, value if isinstance(value, str) else ended.output)
