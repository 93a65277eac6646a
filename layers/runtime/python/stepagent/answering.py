"""What people do with the questions that they are asked: list them, read one, answer it once."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from stepagent.announcing import view
from stepagent.answers import Answer, check_answer, lets_run, text_for_model
from stepagent.approvals import digest_of
from stepagent.clock import now
from stepagent.delivering import deliver_to_run, tool_of
from stepagent.errors import Conflict, Expired, InvalidRequest, NotFound
from stepagent.interactions import Interaction, InteractionStatus
from stepagent.questions import ApprovalQuestion
from stepagent.runs import CallKey, InteractionId, Principal, RunKey
from stepagent.store import questions as store
from stepagent.store.calls import load_call
from stepagent.store.questions import Approved
from stepagent.telemetry import CallEnd, tell_call
from stepagent.tools.execution import to_result

MAX_LISTED = 100
_PAGE_BYTES = 4 * 1024 * 1024  # a function answers with 6 MB at most
_MAX_ID_CHARS = 64
_Asked = TypeVar("_Asked")


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
    needed = tool_of(asked).parameters if isinstance(asked.question, ApprovalQuestion) else {}
    kept = check_answer(asked.question, given, needed)
    if asked.status is InteractionStatus.PENDING:
        _store(asked, kept)
    deliver_to_run(asked)
    standing = read_interaction(interaction_id, principal)
    if standing.status is not InteractionStatus.ANSWERED:
        raise _expired(standing)
    if standing.answer != kept:
        raise Conflict(f"Interaction {interaction_id} has another answer.")
    return standing


def read_interaction(interaction_id: str, principal: Principal) -> Interaction:
    """One question of this principal as it stands.

    Raises:
        NotFound: there is none, or it is another principal's.
    """
    found = store.load_question(InteractionId(interaction_id)) if 0 < len(interaction_id) <= _MAX_ID_CHARS else None
    if found is None or found.interaction.owner != principal:
        raise NotFound(f"There is no interaction {interaction_id[:_MAX_ID_CHARS]!r}.", "interaction_id")
    return found.interaction


def list_interactions(
    principal: Principal, status: str = "pending", after: str | None = None, most: int = MAX_LISTED
) -> list[Interaction]:
    """The questions that wait for this principal, in the order in which they were asked; with `after`, those behind it.

    At most `most` of them, or some megabytes, or one that is longer.

    Raises:
        InvalidRequest: another status is asked for; only what waits can be listed.
        NotFound: `after` is no question of this principal.
    """
    if status != InteractionStatus.PENDING:
        raise InvalidRequest("Only pending interactions can be listed: status=pending.", "status")
    last = _last_listed(after, principal) if after else None
    return list(fitting(islice(store.list_pending(principal, last), most), view))


def fitting(waiting: Iterable[_Asked], shown: Callable[[_Asked], Mapping[str, Any]]) -> Iterator[_Asked]:
    """The first of some questions, and those behind it that fit into the same answer of a function.

    Args:
        waiting: the questions, read no further than to the first one that does not fit.
        shown: what the answer has of one.
    """
    size_bytes = 0
    for number, asked in enumerate(waiting):
        size_bytes += _sent_bytes(shown(asked))
        if number and size_bytes > _PAGE_BYTES:
            return
        yield asked


def _last_listed(interaction_id: str, principal: Principal) -> Interaction:
    try:
        return read_interaction(interaction_id, principal)
    except NotFound as error:
        raise NotFound(error.message, "after") from error


def _sent_bytes(shown: Mapping[str, Any]) -> int:
    """What it takes in the answer of a function, which is JSON with the page's JSON as a text in it."""
    return len(json.dumps(json.dumps(shown)))


def _store(interaction: Interaction, kept: Answer) -> None:
    """Stores the first answer with what it means for its call: its result, or that it may run."""
    question, waited_s = interaction.question, interaction.waited_s(now())
    if isinstance(question, ApprovalQuestion) and isinstance(kept, dict) and lets_run(question, kept):
        edited: dict[str, Any] | None = kept.get("arguments")
        arguments = question.arguments if edited is None else edited
        store.store_answer(interaction, kept, Approved(digest_of({**arguments, **question.bound}), edited, waited_s))
        return
    text, is_error = text_for_model(question, kept)
    run = RunKey.parse(interaction.run_id)
    call = load_call(run, CallKey.parse(interaction.call_id)).call
    result = to_result(run, call, text, is_error=is_error).model_copy(update={"waited_s": waited_s})
    if store.store_answer(interaction, kept, result):
        tell_call(run, call, result, CallEnd(error="Rejected" if is_error else ""))


def _refuse_closed(interaction: Interaction) -> None:
    late = interaction.status is InteractionStatus.PENDING and interaction.expires_at <= now()
    if late or interaction.status in (InteractionStatus.EXPIRED, InteractionStatus.CANCELLED):
        raise _expired(interaction)


def _expired(interaction: Interaction) -> Expired:
    how = "was cancelled" if interaction.status is InteractionStatus.CANCELLED else "has expired"
    return Expired(f"Interaction {interaction.interaction_id} {how}: nobody waits for an answer any more.")
