"""Questions to people: asked with a task token, answered once."""

import secrets
from datetime import timedelta

from stepagent.clock import now
from stepagent.errors import Conflict, Expired, InvalidAnswer, NotFound, RecordConflict
from stepagent.executions import execution_status, resume_execution
from stepagent.journal import Journal, shown
from stepagent.runs import (
    Call,
    CallKey,
    CallResult,
    CallStatus,
    InteractionId,
    Principal,
    Question,
    Run,
)
from stepagent.store.calls import load_call, store_result
from stepagent.store.questions import (
    StoredQuestion,
    ask_question,
    claim_answer,
    load_question,
    replace_token,
    settle_question,
)
from stepagent.store.runs import require_run

_MAX_ANSWER_CHARS = 20_000
_MAX_ID_CHARS = 64
_MAX_QUESTION_CHARS = 8_000  # the call's arguments keep all of it


def ask(run_id: str, call_id: str, task_token: str) -> None:
    """Shows a call's question to a person. A call that has its result lets the loop go on at once.

    Raises:
        NotFound: there is no such run or call.
        RecordConflict: the call was started, but asks nothing.
    """
    run = require_run(run_id)
    stored = load_call(run.key, CallKey.parse(call_id))
    if stored.call.status is CallStatus.DONE:
        resume_execution(task_token)
    elif stored.question:
        _ask_again(stored.question, task_token)
    else:
        try:
            _show(run, stored.call, task_token)
        except RecordConflict:  # a request of the same state was quicker
            shown_before = load_call(run.key, stored.call.key).question
            if shown_before is None:
                raise
            _ask_again(shown_before, task_token)


def answer(interaction_id: str, principal: Principal, text: str) -> Question:
    """Gives a question its answer and lets its run go on. The same answer again is the same success.

    Raises:
        NotFound: there is no such question, or it is another principal's.
        InvalidAnswer: the answer is empty or too long; the question stays open.
        Conflict: the question has another answer.
        Expired: nobody waits for an answer any more.
    """
    found = load_question(InteractionId(interaction_id)) if len(interaction_id) <= _MAX_ID_CHARS else None
    if found is None or found.question.owner != principal:
        raise NotFound(f"There is no interaction {interaction_id[:_MAX_ID_CHARS]!r}.")
    if not text.strip() or len(text) > _MAX_ANSWER_CHARS:
        raise InvalidAnswer(f"An answer has between 1 and {_MAX_ANSWER_CHARS} characters.", param="answer")
    if found.question.answer is None and found.question.expires_at <= now():
        raise Expired(f"Interaction {interaction_id} has expired.")
    stored = claim_answer(found.question.interaction_id, text)
    if stored.closed:
        raise Expired(f"Interaction {interaction_id} has expired.")
    if stored.question.answer != text:
        raise Conflict(f"Interaction {interaction_id} has another answer.")
    waited = _settle(stored)
    resumed = resume_execution(stored.task_token)
    if waited and not resumed and execution_status(stored.question.run_id) not in ("RUNNING", "SUCCEEDED"):
        raise Expired(f"The run that asked interaction {interaction_id} has ended.")
    return stored.question


def settle(interaction_id: InteractionId) -> None:
    """Finishes an answer whose giver did not come to it: it becomes the call's result."""
    found = load_question(interaction_id)
    if found and found.question.answer is not None:
        _settle(found)


def _ask_again(question: InteractionId, task_token: str) -> None:
    """The state that waits was entered anew; an answer that is there already lets it go on."""
    if replace_token(question, task_token).question.answer is not None:
        resume_execution(task_token)


def _show(run: Run, call: Call, task_token: str) -> None:
    moment = now()
    question = Question(
        interaction_id=InteractionId(secrets.token_urlsafe(16)),
        run_id=run.run_id,
        call_id=call.call_id,
        tool=call.name,
        owner=run.owner,
        type="text",
        description=str(call.arguments.get("question", ""))[:_MAX_QUESTION_CHARS],
        created_at=moment,
        expires_at=moment + timedelta(seconds=call.timeout_s),
    )
    ask_question(run.key, question, task_token)
    with Journal(run.run_id) as journal:
        journal.emit(
            "interaction.required", **question.model_dump(mode="json", exclude={"owner", "answer", "answered_at"})
        )


def _settle(stored: StoredQuestion) -> bool:
    """The answer becomes the result of the call that asked; False where the run waits for it no longer.

    Every step may be repeated: the question counts as pending until all is done.
    """
    question = stored.question
    run = require_run(question.run_id)
    result = CallResult(text=question.answer or "", finished_at=question.answered_at or now())
    store_result(run.key, CallKey.parse(question.call_id), result)
    if question.interaction_id not in run.pending:
        return False
    with Journal(question.run_id) as journal:
        journal.emit("interaction.resolved", interaction_id=question.interaction_id)
        journal.emit("tool.completed", id=question.call_id, name=question.tool, text=shown(result.text), is_error=False)
    settle_question(question)
    return True
