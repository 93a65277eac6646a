"""How a question ends: its answer is brought to the loop, or nobody waits for one any more.

An answer is stored first, with what it means for its call, and then brought to the loop, the one step that cannot be
undone. Whoever gives the same answer again, or enters the state anew, brings it there in the place of one who died in
between; where the loop says that it waits no longer, the answer is taken back as too late.
"""

import time
from collections.abc import Mapping
from typing import Any

from stepagent.announcing import announce_resolved
from stepagent.answers import lets_run, text_for_model
from stepagent.clock import now
from stepagent.executions import answer_each, resume_execution
from stepagent.interactions import Interaction, InteractionStatus
from stepagent.journal import Journal
from stepagent.questions import ApprovalQuestion
from stepagent.resuming import ensure_execution
from stepagent.runs import Call, CallResult, CallStatus, InteractionId, RunKey
from stepagent.store import questions as store
from stepagent.store.questions import StoredQuestion
from stepagent.store.runs import require_run
from stepagent.telemetry import CallEnd
from stepagent.tool_specs import ToolSpec
from stepagent.tools.execution import error_result, finish_call

_RETRIES_S = 10  # in which the state machine enters a state again whose function died, as a rule
_LOOK_S = 0.5
_UNANSWERED = {
    InteractionStatus.EXPIRED: "Nobody answered in time",
    InteractionStatus.CANCELLED: "Nobody could be asked",
}


def deliver(question: InteractionId) -> bool:
    """Brings a stored answer to the loop, for a state that was entered anew; False where there is none to bring."""
    standing = store.begin_delivery(question)
    if standing:
        _bring(standing)
    return standing is not None


def deliver_to_run(asked: Interaction) -> None:
    """Brings a stored answer to the loop. Where the loop does not wait, a state may come back for it; else it was late.

    Only the first who brings it can know that nobody waits: to the others a token that was used looks the same.
    """
    standing = store.begin_delivery(asked.interaction_id)
    if standing and not _bring(standing) and not _is_fetched(asked) and standing.deliveries == 1:
        _take_back(standing)


def next_kind(interaction: Interaction) -> Mapping[str, Any]:
    """What the call goes on with, in the words of the state machine."""
    if not lets_run(interaction.question, interaction.answer):
        return {"kind": "none"}
    # Imported here because it brings the checker of schemas along, and few answers let a call run.
    from stepagent.calls import call_to_run  # noqa: PLC0415

    called = call_to_run(interaction.call_id, tool_of(interaction))
    return called.model_dump(include={"kind", "target", "timeout_s"})


def close_question(question: InteractionId) -> bool:
    """Nobody waits for this question any more; False where it was answered or closed before.

    For runs that end, and for those that go on without having noted an answer.
    """
    found = store.load_question(question)
    if found and found.status is InteractionStatus.PENDING:
        # Where somebody was quicker, a second look sees it.
        return _close(found, InteractionStatus.CANCELLED) is not None or close_question(question)
    if found and found.status is InteractionStatus.ANSWERED:
        _settle(found)
    return False


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
        closed = _close(found, InteractionStatus.EXPIRED if timed_out else InteractionStatus.CANCELLED)
        if closed is None:  # somebody was quicker
            return give_up(question, call, timed_out=timed_out)
        found = closed
    with Journal(found.interaction.run_id) as journal:
        end = CallEnd(error=found.interaction.status.value)
        finish_call(journal, RunKey.parse(found.interaction.run_id), call, _unanswered(found.interaction), end)
    return True


def tool_of(interaction: Interaction) -> ToolSpec:
    tool = require_run(interaction.run_id).tool(interaction.tool)
    assert tool is not None  # the run keeps the tools of its calls
    return tool


def _bring(standing: StoredQuestion) -> bool:
    """Lets the loop go on with the answer; False where it waits with none of the question's tokens."""
    if standing.deliveries == 1:  # told before the loop goes on, which may come to its end at once
        _announce_answer(standing.interaction)
    kind = next_kind(standing.interaction)
    if not answer_each(standing.task_tokens, lambda token: resume_execution(token, kind)):
        return False
    store.settle_question(standing.interaction)
    return True


def _is_fetched(asked: Interaction) -> bool:
    """Whether a state comes back for it: of an execution that replaces a lost one, or since its function died."""
    own, *_ = [ensure_execution(require_run(place.run_id)) for place in asked.places]
    if own is None:
        return False
    store.clear_question(asked)  # the next message is no answer to it
    return own.resumptions > 0 or _is_fetched_soon(asked.interaction_id)


def _is_fetched_soon(question: InteractionId) -> bool:
    deadline = time.monotonic() + _RETRIES_S
    while time.monotonic() < deadline:
        found = store.load_question(question)
        if found is None or found.settled or found.status is not InteractionStatus.ANSWERED:
            return True
        time.sleep(_LOOK_S)
    return False


def _close(found: StoredQuestion, status: InteractionStatus) -> StoredQuestion | None:
    """The question, closed and told of; None where it was answered or closed before."""
    if not store.close_question(found.interaction, status):
        return None
    closed = found._replace(interaction=found.interaction.model_copy(update={"status": status}))
    announce_resolved(closed.interaction)
    return closed


def _settle(standing: StoredQuestion) -> None:
    """Notes that the loop has the answer from the record, and tells who follows where nobody came to that."""
    if standing.settled:
        return
    if not store.settle_question(standing.interaction, standing.deliveries):
        store.settle_question(standing.interaction)  # somebody has brought it since, who tells of it first
    elif not standing.deliveries:
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
    return error_result(f"{text}.").model_copy(update={"waited_s": interaction.waited_s(now())})
