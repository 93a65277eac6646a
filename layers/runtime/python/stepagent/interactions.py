"""Questions to people, once they are asked: answered once, and closed with whatever asked them.

An answer is stored first, with what it means for its call, and then brought to the loop, the one step that cannot be
undone. Whoever gives the same answer again, or enters the state anew, brings it there in the place of one who died in
between; where the loop says that it waits no longer, the answer is taken back as too late.
"""

from collections.abc import Mapping
from typing import Any

from stepagent.agents import ToolSpec
from stepagent.announcing import announce_resolved
from stepagent.answers import Answer, check_answer, lets_run, text_for_model
from stepagent.approvals import digest_of
from stepagent.clock import now
from stepagent.errors import Conflict, Expired, InvalidRequest, NotFound
from stepagent.executions import resume_execution
from stepagent.journal import Journal
from stepagent.questions import ApprovalQuestion
from stepagent.resuming import ensure_execution
from stepagent.runs import (
    Call,
    CallKey,
    CallResult,
    CallStatus,
    Interaction,
    InteractionId,
    InteractionStatus,
    Principal,
    RunKey,
)
from stepagent.store import questions as store
from stepagent.store.calls import load_call
from stepagent.store.questions import Approved, StoredQuestion
from stepagent.store.runs import require_run
from stepagent.tools.execution import error_result, finish_call, to_result

MAX_LISTED = 100
_MAX_ID_CHARS = 64
_UNANSWERED = {
    InteractionStatus.EXPIRED: "Nobody answered in time",
    InteractionStatus.CANCELLED: "Nobody could be asked",
}


def answer(interaction_id: str, principal: Principal, given: Answer) -> Interaction:
    """Gives a question its answer and lets its run go on. The same answer again is the same success.

    Args:
        interaction_id: which question.
        principal: who answers.
        given: a text, or an object where a form or an approval asks for one.

    Raises:
        NotFound: there is no such question, or it is another principal's.
        InvalidAnswer: the answer does not fit; the question stays open.
        Conflict: the question has another answer.
        Expired: nobody waits for an answer any more.
    """
    asked = read_interaction(interaction_id, principal)
    _refuse_closed(asked)
    needed = _tool_of(asked).parameters if isinstance(asked.question, ApprovalQuestion) else {}
    kept = check_answer(asked.question, given, needed)
    if asked.status is InteractionStatus.PENDING:
        store.store_answer(asked, kept, _meaning(asked, kept))
    _deliver_to_run(asked)
    standing = read_interaction(interaction_id, principal)
    if standing.status is not InteractionStatus.ANSWERED:
        raise _expired(standing)
    if standing.answer != kept:
        raise Conflict(f"Interaction {interaction_id} has another answer.")
    return standing


def deliver(question: InteractionId) -> bool:
    """Brings a stored answer to the loop; False where there is none to bring.

    Only the first who brings it can know that nobody waits: to the others a token that was used looks the same.
    """
    standing = store.begin_delivery(question)
    if standing and not _bring(standing) and standing.deliveries == 1:
        _take_back(standing)
    return standing is not None


def next_kind(interaction: Interaction) -> Mapping[str, Any]:
    """What the call goes on with, in the words of the state machine."""
    if not lets_run(interaction.question, interaction.answer):
        return {"kind": "none"}
    # Imported here because it brings the checker of schemas along, and few answers let a call run.
    from stepagent.calls import call_to_run  # noqa: PLC0415

    called = call_to_run(interaction.call_id, _tool_of(interaction))
    return called.model_dump(include={"kind", "target", "timeout_s"})


def read_interaction(interaction_id: str, principal: Principal) -> Interaction:
    """One question of this principal as it stands.

    Raises:
        NotFound: there is none, or it is another principal's.
    """
    found = store.load_question(InteractionId(interaction_id)) if 0 < len(interaction_id) <= _MAX_ID_CHARS else None
    if found is None or found.interaction.owner != principal:
        raise NotFound(f"There is no interaction {interaction_id[:_MAX_ID_CHARS]!r}.", "interaction_id")
    return found.interaction


def list_interactions(principal: Principal, status: str = "pending") -> list[Interaction]:
    """The questions that wait for this principal, the oldest 100 in the order in which they were asked.

    Raises:
        InvalidRequest: another status is asked for; only what waits can be listed.
    """
    if status != InteractionStatus.PENDING:
        raise InvalidRequest("Only pending interactions can be listed: status=pending.", "status")
    return store.list_pending(principal, MAX_LISTED)


def close_question(question: InteractionId) -> bool:
    """Nobody waits for this question any more; False where it was answered or closed before.

    For runs that end, and for those that go on without having noted an answer.
    """
    closed = store.close_question(question, InteractionStatus.CANCELLED)
    found = store.load_question(question)
    if closed and found:
        announce_resolved(found.interaction)
    elif found and found.status is InteractionStatus.ANSWERED:
        _settle(found)
    return closed


def give_up(question: InteractionId, call: Call, *, timed_out: bool) -> bool:
    """Ends a question for which the loop waits no longer. False where the call failed after its question was answered.

    Where it is True the call has its result: that nobody answered, or what somebody did.
    """
    found = store.load_question(question)
    if found is None:
        return False
    if found.status is InteractionStatus.ANSWERED:
        return _give_up_answered(found, call, timed_out=timed_out)
    if found.status is InteractionStatus.PENDING:
        status = InteractionStatus.EXPIRED if timed_out else InteractionStatus.CANCELLED
        if not store.close_question(question, status):  # somebody was quicker
            return give_up(question, call, timed_out=timed_out)
        found = found._replace(interaction=found.interaction.model_copy(update={"status": status}))
        announce_resolved(found.interaction)
    with Journal(found.interaction.run_id) as journal:
        finish_call(journal, RunKey.parse(found.interaction.run_id), call, _unanswered(found.interaction))
    return True


# ---- answering


def _tool_of(interaction: Interaction) -> ToolSpec:
    tool = require_run(interaction.run_id).tool(interaction.tool)
    assert tool is not None  # the run keeps the tools of its calls
    return tool


def _meaning(interaction: Interaction, kept: Answer) -> CallResult | Approved:
    """What an answer means for its call: its result, or that it may run."""
    question = interaction.question
    if isinstance(question, ApprovalQuestion) and isinstance(kept, dict) and lets_run(question, kept):
        edited: dict[str, Any] | None = kept.get("arguments")
        arguments = question.arguments if edited is None else edited
        return Approved(digest_of({**arguments, **question.bound}), edited, _waited_s(interaction))
    text, is_error = text_for_model(question, kept)
    run = RunKey.parse(interaction.run_id)
    call = load_call(run, CallKey.parse(interaction.call_id)).call
    result = to_result(run, call, text, is_error=is_error)
    return result.model_copy(update={"waited_s": _waited_s(interaction)})


def _deliver_to_run(asked: Interaction) -> None:
    """Brings a stored answer to the loop, or leaves it to another execution where the one that asked was lost."""
    standing = store.begin_delivery(asked.interaction_id)
    if standing and not _bring(standing) and not _is_asked_again(asked) and standing.deliveries == 1:
        _take_back(standing)


def _bring(standing: StoredQuestion) -> bool:
    """Lets the loop go on with the answer; False where it does not wait with this token."""
    if standing.deliveries == 1:  # told before the loop goes on, which may come to its end at once
        _announce_answer(standing.interaction)
    if not resume_execution(standing.task_token, next_kind(standing.interaction)):
        return False
    store.settle_question(standing.interaction)
    return True


def _is_asked_again(asked: Interaction) -> bool:
    """Whether the run goes on in another execution than its first. It enters its question again, or gives it up."""
    own, *_ = [ensure_execution(require_run(place.run_id)) for place in asked.places]
    return own is not None and own.executions > 1


def _settle(standing: StoredQuestion) -> None:
    """Notes that the loop has the answer from the record, and tells who follows where nobody came to that."""
    if store.settle_question(standing.interaction) and not standing.deliveries:
        _announce_answer(standing.interaction)


def _announce_answer(interaction: Interaction) -> None:
    if interaction.answer is None or lets_run(interaction.question, interaction.answer):
        announce_resolved(interaction)
    else:
        text, is_error = text_for_model(interaction.question, interaction.answer)
        announce_resolved(interaction, text, is_error=is_error)


def _take_back(standing: StoredQuestion) -> bool:
    """An answer that came too late; False where somebody else brought it to the loop, or ended the question."""
    expired = standing.interaction.model_copy(update={"status": InteractionStatus.EXPIRED, "answer": None})
    result = _unanswered(expired)
    taken = store.take_back_answer(standing.interaction, standing.deliveries, result)
    if taken:
        announce_resolved(expired, result.text, is_error=True)
    return taken


def _refuse_closed(interaction: Interaction) -> None:
    late = interaction.status is InteractionStatus.PENDING and interaction.expires_at <= now()
    if late or interaction.status in (InteractionStatus.EXPIRED, InteractionStatus.CANCELLED):
        raise _expired(interaction)


def _expired(interaction: Interaction) -> Expired:
    how = "was cancelled" if interaction.status is InteractionStatus.CANCELLED else "has expired"
    return Expired(f"Interaction {interaction.interaction_id} {how}: nobody waits for an answer any more.")


# ---- what became of it


def _give_up_answered(found: StoredQuestion, call: Call, *, timed_out: bool) -> bool:
    if not lets_run(found.interaction.question, found.interaction.answer):
        _settle(found)  # the answer was first, and is the call's result
        return True
    if found.settled or not timed_out or call.status is not CallStatus.PENDING:
        _settle(found)
        return False
    # Nobody brought the approval to the loop, and the tool has not begun: now it never will.
    return _take_back(found) or give_up(found.interaction.interaction_id, call, timed_out=timed_out)


def _unanswered(interaction: Interaction) -> CallResult:
    """The result of a call whose question nobody answered."""
    text = _UNANSWERED[interaction.status]
    if isinstance(interaction.question, ApprovalQuestion):
        text = f"{text.replace('answered', 'approved')}, so it was not run"
    return error_result(f"{text}.").model_copy(update={"waited_s": _waited_s(interaction)})


def _waited_s(interaction: Interaction) -> int:
    return round((now() - interaction.created_at).total_seconds())
