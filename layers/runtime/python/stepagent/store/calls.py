"""Calls in the record: claimed before they run, answered once."""

import uuid
from typing import NamedTuple

from stepagent.errors import NotFound
from stepagent.runs import Call, CallKey, CallResult, CallStatus, InteractionId, RunKey
from stepagent.store.conversation import call_from_item
from stepagent.store.items import assign, call_key
from stepagent.store.table import Refused, apply, change, get


class ClaimedCall(NamedTuple):
    """A call as it stands, and whether it is ours to run."""

    call: Call
    ours: bool
    question: InteractionId | None = None


def claim_call(run: RunKey, key: CallKey) -> ClaimedCall:
    """Marks a call as started. It is ours unless it was started or answered before.

    Raises:
        NotFound: there is no such call.
    """
    claimed = change(
        call_key(run.session, key),
        "SET #status = :started, claim_id = :claim",
        # The client repeats a request whose answer was lost; the claim that stands there then is ours.
        "#status = :pending OR (#status = :started AND claim_id = :claim)",
        {":started": CallStatus.STARTED, ":pending": CallStatus.PENDING, ":claim": uuid.uuid4().hex},
    )
    try:
        return ClaimedCall(call_from_item(apply(claimed)), ours=True)
    except Refused as refused:
        if refused.item:
            return ClaimedCall(call_from_item(refused.item), ours=False, question=refused.item.get("question"))
        return load_call(run, key)


def load_call(run: RunKey, key: CallKey) -> ClaimedCall:
    """A call as it stands, not claimed.

    Raises:
        NotFound: there is no such call.
    """
    item = get(call_key(run.session, key))
    if not item:
        raise NotFound(f"Run {run.run_id} has no call {key.call_id}.")
    return ClaimedCall(call_from_item(item), ours=False, question=item.get("question"))


def store_result(run: RunKey, key: CallKey, result: CallResult) -> bool:
    """Gives a call its one result; False where it has one already, which then stands."""
    same, text = assign("result", result.model_dump_json())
    answered = change(
        call_key(run.session, key),
        f"SET #status = :done, {same}",
        f"attribute_exists(pk) AND (#status <> :done OR {same})",  # a repeat of ours is no conflict
        {":done": CallStatus.DONE, **text},
    )
    try:
        apply(answered)
    except Refused:
        return False
    return True
