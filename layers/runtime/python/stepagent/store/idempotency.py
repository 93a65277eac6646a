"""Idempotency keys in the record: what the first request with a key began, kept for as long as it may come again."""

import hashlib
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from stepagent.clock import now
from stepagent.runs import InteractionId, Principal, RunId
from stepagent.store.items import idempotency_key
from stepagent.store.table import Operation, apply, change, get


class IdempotencyKey(NamedTuple):
    """By what a request is known when it comes again: its owner's key for it, and a digest of what it says.

    `source` keeps the keys of HTTP requests and of jobs apart.
    """

    source: Literal["request", "job"]
    owner: Principal
    name: str
    digest: str
    kept: timedelta

    @property
    def hashed(self) -> str:
        return hashlib.sha256(f"{self.source}\0{self.owner}\0{self.name}".encode()).hexdigest()


class Begun(NamedTuple):
    """What a request began: a run, or, where it answered `question`, the rest of one, from behind event `after`."""

    run_id: RunId
    after: int = 0
    question: InteractionId | None = None


class Standing(NamedTuple):
    """What stands under a key. `digest` is that of the first request."""

    begun: Begun
    digest: str


def find_begun(key: IdempotencyKey) -> Standing | None:
    """What was begun with this key, or None: nothing, or it was so long ago that the key is free again."""
    item = get(idempotency_key(key.hashed))
    if item is None or int(item["forget_at"]) <= int(now().timestamp()):  # DynamoDB deletes it hours later
        return None
    question: Any = item.get("question")
    return Standing(Begun(RunId(item["run_id"]), int(item["after"]), question), item["digest"])


def note_begun(key: IdempotencyKey, begun: Begun) -> None:
    """Takes the key.

    Raises:
        RecordConflict: it is not free.
    """
    apply(put_begun(key, begun))


def put_begun(key: IdempotencyKey, begun: Begun) -> Operation:
    """Takes the key, which must be free, as part of a transaction."""
    moment = now()
    values: dict[str, Any] = {
        ":run": begun.run_id,
        ":after": begun.after,
        ":digest": key.digest,
        ":forget": int((moment + key.kept).timestamp()),
        ":now": int(moment.timestamp()),
    }
    expression = "SET run_id = :run, #after = :after, digest = :digest, forget_at = :forget"
    if begun.question:
        expression, values = f"{expression}, question = :question", values | {":question": begun.question}
    else:
        expression = f"{expression} REMOVE question"
    free = "attribute_not_exists(pk) OR forget_at <= :now"
    return change(idempotency_key(key.hashed), expression, free, values)
