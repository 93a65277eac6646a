"""The AskPerson state: a call becomes a question to a person, once, however often the state is entered."""

import secrets
from datetime import timedelta

from stepagent.announcing import announce_question
from stepagent.approvals import digest_of
from stepagent.clock import now
from stepagent.delivering import deliver, give_up, next_kind
from stepagent.errors import RecordConflict, ToolError
from stepagent.executions import resume_execution
from stepagent.interactions import Interaction, InteractionStatus
from stepagent.journal import Journal
from stepagent.questions import Question, ask_approval, ask_plan, make_question
from stepagent.reminders import schedule_reminders
from stepagent.runs import ENDED, Call, CallKey, CallStatus, InteractionId, Run
from stepagent.store.calls import load_call
from stepagent.store.questions import add_token, ask_question
from stepagent.store.runs import require_run
from stepagent.tools.execution import error_result, finish_call


def ask(run_id: str, call_id: str, task_token: str) -> None:
    """Shows a call's question to a person. A call that has nothing to ask any more lets the loop go on at once.

    Raises:
        NotFound: there is no such run or call.
        RecordConflict: the call was started, but asks nothing, or the run at the top has ended.
    """
    key = CallKey.parse(call_id)
    try:
        _ask(run_id, key, task_token)
    except RecordConflict:  # the same state was quicker, or the run has ended: a second look sees it
        _ask(run_id, key, task_token)


def _ask(run_id: str, key: CallKey, task_token: str) -> None:
    run = require_run(run_id)
    found = load_call(run.key, key)
    if run.status in ENDED:
        resume_execution(task_token)
    elif found.question:
        _ask_again(run, found.call, found.question, task_token)
    elif found.call.status is CallStatus.DONE:
        resume_execution(task_token)
    else:
        _ask_first(run, found.call, task_token)


def _ask_first(run: Run, call: Call, task_token: str) -> None:
    try:
        question = _question_of(run, call)
    except ToolError as error:  # the model can mend it
        with Journal(run.run_id) as journal:
            finish_call(journal, run.key, call, error_result(error.message))
        resume_execution(task_token)
        return
    interaction = _interaction(run, call, question)
    ask_question(interaction, task_token)
    _show(run, interaction)


def _ask_again(run: Run, call: Call, question: InteractionId, task_token: str) -> None:
    """The state was entered anew: what is asked is told again, or the answer that is there lets the loop go on."""
    standing = add_token(question, task_token).interaction
    if standing.status is InteractionStatus.PENDING and standing.expires_at <= now():
        give_up(question, call, timed_out=True)  # its time went by while no state waited
        resume_execution(task_token)
    elif standing.status is InteractionStatus.PENDING:
        _show(run, standing)
    elif not deliver(question):
        resume_execution(task_token, next_kind(standing))


def _show(run: Run, interaction: Interaction) -> None:
    announce_question(interaction)
    tool = run.tool(interaction.tool)
    schedule_reminders(interaction, tool.remind_after_s if tool else ())


def _question_of(run: Run, call: Call) -> Question:
    if call.needs_approval:
        return ask_approval(call.name, call.arguments, call.bound, digest_of(call.all_arguments))
    if call.kind == "plan":
        return ask_plan(call.arguments, run.agent.plan.max_steps)
    tool = run.tool(call.name)
    return make_question(tool.interaction if tool else None, call.all_arguments)


def _interaction(run: Run, call: Call, question: Question) -> Interaction:
    tool, moment = run.tool(call.name), now()
    patience_s = tool.approval_timeout_s if tool and call.needs_approval else call.timeout_s
    return Interaction(
        interaction_id=InteractionId(secrets.token_urlsafe(16)),
        run_id=run.run_id,
        call_id=call.call_id,
        top=run.top,
        tool=call.name,
        owner=run.owner,
        question=question,
        created_at=moment,
        expires_at=moment + timedelta(seconds=patience_s),
    )
