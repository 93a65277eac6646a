"""Questions to people in the record. A task token stands beside its question, and leaves this module for one caller."""

from typing import Any, NamedTuple

from stepagent.clock import now
from stepagent.runs import CallKey, CallStatus, InteractionId, Question, RunKey
from stepagent.store.items import call_key, question_key, run_key
from stepagent.store.table import Operation, Refused, apply, change, get, put, transact


class StoredQuestion(NamedTuple):
    question: Question
    task_token: str
    closed: bool


def ask_question(run: RunKey, question: Question, task_token: str) -> None:
    """Stores the question, marks its call as started and its run as waiting, all at once.

    Raises:
        RecordConflict: the call was started or answered before.
    """
    body = question.model_dump_json(exclude={"answer", "answered_at"})
    asked = put(question_key(question.interaction_id), {"body": body, "task_token": task_token})
    started = change(
        call_key(run.session, CallKey.parse(question.call_id)),
        "SET #status = :started, question = :question",
        "#status = :pending",
        {":started": CallStatus.STARTED, ":pending": CallStatus.PENDING, ":question": question.interaction_id},
    )
    waiting = change(run_key(run), "ADD pending :entries", "attribute_exists(pk)", {":entries": {_pending(question)}})
    transact([asked, started, waiting])


def settle_question(question: Question) -> None:
    """The run no longer waits for this question."""
    entries = {":entries": {_pending(question)}}
    key = run_key(RunKey.parse(question.run_id))
    apply(change(key, "DELETE pending :entries", "attribute_exists(pk)", entries))


def replace_token(question: InteractionId, task_token: str) -> StoredQuestion:
    """The state was entered anew: from now on an answer goes to its new token. Returns the question as it stands."""
    replaced = change(question_key(question), "SET task_token = :token", "attribute_exists(pk)", {":token": task_token})
    return _question(apply(replaced))


def load_question(question: InteractionId) -> StoredQuestion | None:
    item = get(question_key(question))
    return _question(item) if item else None


def claim_answer(question: InteractionId, answer: str) -> StoredQuestion:
    """Stores the first answer and returns the question as it stands: with this answer, or with an earlier one."""
    answered = change(
        question_key(question),
        "SET answer = :answer, answered_at = :now",
        "attribute_exists(pk) AND attribute_not_exists(answer) AND attribute_not_exists(closed)",
        {":answer": answer, ":now": now().isoformat()},
    )
    try:
        return _question(apply(answered))
    except Refused as refused:
        return _question(refused.item or get(question_key(question)) or {})


def close_question(question: InteractionId) -> bool:
    """Nobody may answer any more; False where somebody has."""
    try:
        apply(_closing(question))
    except Refused:
        return False
    return True


def _closing(question: InteractionId) -> Operation:
    return change(
        question_key(question),
        "SET closed = :true",
        "attribute_exists(pk) AND attribute_not_exists(answer)",
        {":true": True},
    )


def _pending(question: Question) -> str:
    call = CallKey.parse(question.call_id)
    return f"{call.turn:06d}.{call.position:03d}#{question.interaction_id}"


def _question(item: dict[str, Any]) -> StoredQuestion:
    question = Question.model_validate_json(item["body"])
    answered = {"answer": item.get("answer"), "answered_at": item.get("answered_at")}
    return StoredQuestion(
        Question.model_validate(question.model_dump() | answered), item["task_token"], bool(item.get("closed"))
    )
