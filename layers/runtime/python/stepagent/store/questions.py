"""Questions to people in the record. Beside each stand the task tokens with which its state has waited, for whoever
brings its answer to the loop.

A question is pending, then answered, expired or cancelled. An answer is stored together with what it means for its
call, and settled once the loop has taken it; until then it can be taken back, should the loop wait no longer. What ends
a question also clears it from the runs that wait for it and from its owner's list.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from stepagent.answers import Answer, lets_run
from stepagent.clock import now
from stepagent.interactions import Interaction, InteractionStatus
from stepagent.questions import ApprovalQuestion
from stepagent.runs import CallAddress, CallKey, CallResult, CallStatus, InteractionId, Principal, RunKey
from stepagent.store.items import (
    PENDING,
    assign,
    call_key,
    owner_pk,
    pack,
    pending_key,
    question_key,
    run_key,
    task_tokens_in,
    unmarshal,
    unpack,
)
from stepagent.store.runs import ENDED_VALUES, NOT_ENDED
from stepagent.store.table import ANYHOW, Operation, Refused, apply, change, get, put, query, transact

_RUNNING = f"attribute_exists(pk) AND {NOT_ENDED}"
_ANSWERED = "#status = :answered AND attribute_not_exists(settled)"
_BROUGHT = "(attribute_not_exists(deliveries) OR deliveries = :deliveries)"
_ANSWERED_VALUES = {":answered": InteractionStatus.ANSWERED}


class StoredQuestion(NamedTuple):
    """A question as it stands. `deliveries` counts who brought its answer to the loop, which took it if `settled`."""

    interaction: Interaction
    task_tokens: frozenset[str]
    settled: bool
    deliveries: int

    @property
    def status(self) -> InteractionStatus:
        return self.interaction.status


class Approved(NamedTuple):
    """What an approval means for its call: the digest of what may run, and the arguments if a person changed them.

    `waited_s` are the seconds for which the call waited for it.
    """

    digest: str
    edited_arguments: Mapping[str, Any] | None
    waited_s: int


def ask_question(interaction: Interaction, task_token: str) -> None:
    """Stores the question, and marks its call, its run, the run at the top and its owner, all at once.

    Raises:
        RecordConflict: the call asks already, was started or answered, or one of the runs has ended.
    """
    body = interaction.model_dump_json(exclude={"status", "answer", "history"})
    values = {
        **pack("body", body),
        "task_tokens": {task_token},
        "status": interaction.status,
        "history": [_now_as(interaction.status)],
    }
    # A call that must be approved is begun by its tool, which claims it; to any other the answer is all there is.
    status = CallStatus.PENDING if isinstance(interaction.question, ApprovalQuestion) else CallStatus.STARTED
    asking = change(
        _call_key(interaction),
        "SET #status = :status, question = :question",
        "#status = :pending AND attribute_not_exists(question)",
        {":status": status, ":pending": CallStatus.PENDING, ":question": interaction.interaction_id},
    )
    waiting = [
        change(_run_key(place), "ADD pending :entry", _RUNNING, {":entry": _entry(interaction, place), **ENDED_VALUES})
        for place in interaction.places
    ]
    asked = put(question_key(interaction.interaction_id), values)
    listed = put(_pending_key(interaction), {"forget_at": _epoch_s(interaction.expires_at)})
    transact([asked, listed, asking, *waiting])


def add_token(question: InteractionId, task_token: str) -> StoredQuestion:
    """The state was entered anew: an answer goes to its new token, too. Returns the question as it stands."""
    added = change(question_key(question), "ADD task_tokens :tokens", "attribute_exists(pk)", {":tokens": {task_token}})
    return _question(apply(added))


def load_question(question: InteractionId) -> StoredQuestion | None:
    item = get(question_key(question))
    return _question(item) if item else None


def list_pending(owner: Principal, after: Interaction | None = None) -> Iterator[Interaction]:
    """The questions that wait for this principal, in the order in which they were asked; with `after`, those behind it.

    Each is read only when it is come to.
    """
    last = unmarshal(_pending_key(after))["sk"] if after else ""
    for entry in query(owner_pk(owner), PENDING, last):
        if entry["forget_at"] <= _epoch_s(now()):
            continue
        found = load_question(InteractionId(entry["sk"].rpartition("#")[2]))
        # One that was answered a moment ago is listed until the loop has taken its answer.
        if found and found.status is InteractionStatus.PENDING:
            yield found.interaction


def note_reminder(question: InteractionId, number: int) -> Interaction | None:
    """Notes once that its owner is reminded; None where that is noted, or the question is open no more."""
    reminded: dict[str, Any] = {":history": [_now_as("reminded")], ":numbers": {str(number)}}
    noted = change(
        question_key(question),
        "SET history = list_append(history, :history) ADD reminders :numbers",
        "#status = :pending AND NOT contains(reminders, :number)",
        {**reminded, ":number": str(number), ":pending": InteractionStatus.PENDING},
    )
    try:
        return _question(apply(noted)).interaction
    except Refused:
        return None


def store_answer(interaction: Interaction, answer: Answer, meaning: CallResult | Approved) -> bool:
    """Stores the first answer with what it means for the call; False where the question or the call is past that."""
    answered, values = _turn_to(InteractionStatus.ANSWERED)
    given, text = assign("answer", json.dumps(answer, ensure_ascii=False))
    stored = change(
        question_key(interaction.interaction_id),
        f"{answered}, {given}",
        "#status = :pending",
        {**values, **text, ":pending": InteractionStatus.PENDING},
    )
    return _transacted(stored, _meant(interaction, meaning))


def begin_delivery(question: InteractionId) -> StoredQuestion | None:
    """Counts one more who brings the answer to the loop; None where there is none to bring, or the loop took it."""
    counted = change(question_key(question), "ADD deliveries :one", _ANSWERED, {":one": 1, **_ANSWERED_VALUES})
    try:
        return _question(apply(counted))
    except Refused:
        return None


def settle_question(interaction: Interaction, deliveries: int | None = None) -> bool:
    """The loop took the answer, and waits no longer; False where that is noted.

    With `deliveries` it is also False where another number of people brought it there.
    """
    condition, values = _ANSWERED, {":true": True, **_ANSWERED_VALUES}
    if deliveries is not None:
        condition, values = f"{_ANSWERED} AND {_BROUGHT}", {**values, ":deliveries": deliveries}
    settled = change(question_key(interaction.interaction_id), "SET settled = :true", condition, values)
    return _transacted(settled, *_cleared(interaction))


def clear_question(interaction: Interaction) -> None:
    """Nobody is asked any more: it was answered, and its state comes back for the answer."""
    transact(_cleared(interaction))


def take_back_answer(interaction: Interaction, deliveries: int, result: CallResult) -> bool:
    """The loop waits no longer, so the answer came too late, and the call gets this result in place of what it meant.

    False where somebody else brought the answer to the loop since, or ended the question.
    """
    expired, values = _turn_to(InteractionStatus.EXPIRED)
    late = change(
        question_key(interaction.interaction_id),
        f"{expired} REMOVE answer, answer_object",
        f"{_ANSWERED} AND {_BROUGHT}",
        {**values, **_ANSWERED_VALUES, ":deliveries": deliveries},
    )
    # A call that may run could have begun; any other has the answer as its result.
    before = CallStatus.PENDING if lets_run(interaction.question, interaction.answer) else CallStatus.DONE
    called = change(
        _call_key(interaction),
        "SET #status = :done, #result = :result"
        " REMOVE result_object, approved, edited_arguments, edited_arguments_object",
        "#status = :before",
        {":done": CallStatus.DONE, ":before": before, ":result": result.model_dump_json()},
    )
    # Once the run has ended, what comes next in its session has read the result.
    return _transacted(late, called, *_cleared(interaction, only_alive=before is CallStatus.DONE))


def close_question(interaction: Interaction, status: InteractionStatus) -> bool:
    """Nobody may answer any more; False where somebody has, or it was closed before."""
    closing, values = _turn_to(status)
    pending = {":pending": InteractionStatus.PENDING}
    closed = change(question_key(interaction.interaction_id), closing, "#status = :pending", {**values, **pending})
    return _transacted(closed, *_cleared(interaction))


def _transacted(*operations: Operation) -> bool:
    try:
        transact(operations)
    except Refused:
        return False
    return True


def _turn_to(status: InteractionStatus) -> tuple[str, dict[str, Any]]:
    expression = "SET #status = :status, history = list_append(history, :history)"
    return expression, {":status": status, ":history": [_now_as(status)]}


def _now_as(status: InteractionStatus | Literal["reminded"]) -> dict[str, Any]:
    return {"status": status, "at": now().isoformat()}


def _meant(interaction: Interaction, meaning: CallResult | Approved) -> Operation:
    if isinstance(meaning, CallResult):
        result, text = assign("result", meaning.model_dump_json())
        values = {":done": CallStatus.DONE, **text}
        return change(_call_key(interaction), f"SET #status = :done, {result}", "#status <> :done", values)
    sets = "SET approved = :digest, waited_s = :waited"
    approved: dict[str, Any] = {":digest": meaning.digest, ":waited": meaning.waited_s, ":pending": CallStatus.PENDING}
    if meaning.edited_arguments is not None:
        edited, text = assign("edited_arguments", json.dumps(meaning.edited_arguments, ensure_ascii=False))
        sets, approved = f"{sets}, {edited}", {**approved, **text}
    return change(_call_key(interaction), sets, "#status = :pending", approved)


def _cleared(interaction: Interaction, *, only_alive: bool = False) -> list[Operation]:
    """Nobody waits for this question any more: neither its runs nor its owner.

    With `only_alive` it is refused where the run that asks has ended.
    """
    places = interaction.places
    runs = [_unlisted(interaction, each, alive=only_alive and each == interaction.call) for each in places]
    # Nobody may delete here: an entry that is over is left to DynamoDB, which may also have been quicker than this.
    over = change(_pending_key(interaction), "SET forget_at = :now", ANYHOW, {":now": _epoch_s(now())})
    return [*runs, over]


def _unlisted(interaction: Interaction, place: CallAddress, *, alive: bool) -> Operation:
    condition, values = (_RUNNING, ENDED_VALUES) if alive else ("attribute_exists(pk)", {})
    entry = {":entry": _entry(interaction, place)}
    return change(_run_key(place), "DELETE pending :entry", condition, {**entry, **values})


def _entry(interaction: Interaction, place: CallAddress) -> set[str]:
    """What stands in a run that waits: entries sort by its calls, those of one call by when they were asked.

    Calls of a turn ask at the same time, so only their places tell which question the model put first.
    """
    call = CallKey.parse(place.call_id)
    return {f"{call.turn:06d}.{call.position:03d}.{_asked_at(interaction)}#{interaction.interaction_id}"}


def _asked_at(interaction: Interaction) -> str:
    return interaction.created_at.isoformat(timespec="microseconds")


def _epoch_s(moment: datetime) -> int:
    return int(moment.timestamp())


def _run_key(call: CallAddress) -> dict[str, Any]:
    return run_key(RunKey.parse(call.run_id))


def _call_key(interaction: Interaction) -> dict[str, Any]:
    return call_key(RunKey.parse(interaction.run_id).session, CallKey.parse(interaction.call_id))


def _pending_key(interaction: Interaction) -> dict[str, Any]:
    return pending_key(interaction.owner, _asked_at(interaction), interaction.interaction_id)


def _question(item: dict[str, Any]) -> StoredQuestion:
    answer = unpack(item, "answer")
    stored = {
        "status": item["status"],
        "answer": None if answer is None else json.loads(answer),
        "history": item["history"],
    }
    asked = Interaction.model_validate_json(unpack(item, "body") or "{}")
    return StoredQuestion(
        Interaction.model_validate(asked.model_dump() | stored),
        task_tokens_in(item),
        bool(item.get("settled")),
        int(item.get("deliveries", 0)),
    )
