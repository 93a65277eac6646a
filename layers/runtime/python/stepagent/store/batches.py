"""Batches in the record, their inputs that began, and counts of those.

Inputs that begin and end at the same time would wait for one another at one counter, so a batch's counts are spread
over some items, and its inputs over some partitions. Each count is written with what it counts, so it is exact.
"""

import json
from contextlib import suppress
from typing import Any, NamedTuple

from stepagent.batches.models import (
    ENDED,
    Batch,
    BatchKey,
    BatchStatus,
    Counts,
    InputRef,
    Pace,
    StandingInput,
)
from stepagent.clock import now
from stepagent.errors import NotFound
from stepagent.runs import Failure, Principal, RunId
from stepagent.store.items import (
    INPUT_COUNT,
    OWNED_BATCH,
    batch_key,
    batch_pk,
    input_count_key,
    input_key,
    owned_batch_key,
    owner_pk,
    task_tokens_in,
)
from stepagent.store.table import ANYHOW, Operation, Refused, apply, change, get, put, query, query_back, transact

_STATIC = {"batch_id", "owner", "agent", "source", "digest", "metadata", "used_key", "created_at"}
_RUNNING = "#status = :running"
_IS_RUNNING = {":running": BatchStatus.RUNNING.value}
_NOT_ENDED = "NOT (#status IN (:completed, :failed, :cancelled))"
_ENDED_VALUES = {f":{status.value}": status.value for status in ENDED}


def create_batch(batch: Batch) -> None:
    """Writes a new batch, and its entry in its owner's list.

    Raises:
        RecordConflict: there is one with this id.
    """
    values = {
        "body": batch.model_dump_json(include=_STATIC),
        "pace": batch.pace.model_dump_json(),
        "status": batch.status,
        "executions": 1,
    }
    listed = put(owned_batch_key(batch.owner, batch.created_at, batch.key), {"batch": batch.key})
    transact([put(batch_key(batch.key), values), listed])


def find_batch(key: BatchKey) -> Batch | None:
    item = get(batch_key(key))
    return _batch(item) if item else None


def require_batch(key: BatchKey) -> Batch:
    """One batch.

    Raises:
        NotFound: there is none.
    """
    batch = find_batch(key)
    if batch is None:
        raise NotFound("There is no such batch.")
    return batch


def list_batches(owner: Principal, most: int, before: Batch | None = None) -> list[BatchKey]:
    """The batches that a principal began, the newest first; with `before`, those that are older than that."""
    start = owned_batch_key(owner, before.created_at, before.key) if before else None
    return [BatchKey(entry["batch"]) for entry in query_back(owner_pk(owner), OWNED_BATCH, most, start)]


def note_total(key: BatchKey, total: int) -> None:
    """Notes how many inputs there are, which stand in order from then on."""
    apply(change(batch_key(key), "SET #total = :total", "attribute_exists(pk)", {":total": total}))


def count_batch_execution(batch: Batch, pace: Pace) -> Batch:
    """Gives a batch one execution more, at a pace of its own, and has it run again where it had failed.

    Whoever counts second finds what the first one did.
    """
    status = BatchStatus.RUNNING if batch.status is BatchStatus.FAILED else batch.status
    counted = change(
        batch_key(batch.key),
        "SET executions = :next, pace = :pace, #status = :status, resumed_at = :now "
        "REMOVE ended_at, failure, #succeeded, #failed",
        "executions < :next AND #status = :seen",
        {
            ":next": batch.executions + 1,
            ":pace": pace.model_dump_json(),
            ":status": status,
            ":seen": batch.status,
            ":now": now().isoformat(),
        },
    )
    try:
        return _batch(apply(counted))
    except Refused:
        return require_batch(batch.key)


def mark_cancelling(key: BatchKey) -> Batch:
    """No input of the batch begins from now on; one that is over stays as it is."""
    marked = change(
        batch_key(key), "SET #status = :cancelling", _RUNNING, {":cancelling": BatchStatus.CANCELLING, **_IS_RUNNING}
    )
    try:
        return _batch(apply(marked))
    except Refused:
        return require_batch(key)


class BatchOutcome(NamedTuple):
    """How a batch ended, and how many of its inputs how."""

    status: BatchStatus
    succeeded: int
    failed: int
    failure: Failure | None = None


def close_batch(key: BatchKey, outcome: BatchOutcome) -> bool:
    """Ends a batch; False where it had ended before, which then stands."""
    sets = "#status = :status, ended_at = :now, #succeeded = :good, #failed = :bad"
    values: dict[str, Any] = {
        ":status": outcome.status,
        ":now": now().isoformat(),
        ":good": outcome.succeeded,
        ":bad": outcome.failed,
        **_ENDED_VALUES,
    }
    if outcome.failure:
        sets, values = f"{sets}, failure = :failure", values | {":failure": outcome.failure.model_dump_json()}
    try:
        apply(change(batch_key(key), f"SET {sets}", _NOT_ENDED, values))
    except Refused:
        return False
    return True


def enter_input(ref: InputRef, task_token: str) -> StandingInput:
    """Notes one more token that an input's state waits with, and counts an input that begins; returns it."""
    began = put(input_key(ref.batch, ref.n), {"task_tokens": {task_token}, "began_at": now().isoformat()})
    try:
        transact([began, _count(ref.batch, ref.n, "started")])
    except Refused:
        again = change(
            input_key(ref.batch, ref.n), "ADD task_tokens :tokens", "attribute_exists(pk)", {":tokens": {task_token}}
        )
        return _standing(apply(again))
    return StandingInput(frozenset({task_token}), None, None, None)


def leave_input(ref: InputRef, task_token: str) -> None:
    """Notes that its state waits with this token no more."""
    left = change(
        input_key(ref.batch, ref.n), "DELETE task_tokens :tokens", "attribute_exists(pk)", {":tokens": {task_token}}
    )
    apply(left)


def note_run(ref: InputRef, run_id: RunId) -> None:
    """Notes which run answers an input."""
    apply(change(input_key(ref.batch, ref.n), "SET run_id = :run", "attribute_exists(pk)", {":run": run_id}))


def close_input(key: BatchKey, n: int, *, succeeded: bool, by: RunId | Failure) -> StandingInput:
    """Ends an input and counts it, once; returns it as it stands then.

    Args:
        key: of its batch.
        n: its number.
        succeeded: how it ended.
        by: the run that answered it, also where its start was not noted; or why there is none.

    Raises:
        NotFound: it never began.
    """
    sets, values = "#succeeded = :good, ended_at = :now", {":good": succeeded, ":now": now().isoformat()}
    if isinstance(by, Failure):
        sets, values = f"{sets}, failure = :failure", values | {":failure": by.model_dump_json()}
    else:
        sets, values = f"{sets}, run_id = :run", values | {":run": by}
    once = "attribute_exists(pk) AND attribute_not_exists(#succeeded)"
    ended = change(input_key(key, n), f"SET {sets}", once, values)
    with suppress(Refused):  # it has ended
        transact([ended, _count(key, n, "succeeded" if succeeded else "failed")])
    standing = find_input(key, n)  # whoever entered it meanwhile waits with another token
    if standing is None:
        raise NotFound(f"Input {n} of the batch never began.")
    return standing


def find_input(key: BatchKey, n: int) -> StandingInput | None:
    item = get(input_key(key, n))
    return _standing(item) if item else None


def read_counts(key: BatchKey) -> Counts:
    """How many inputs began and ended so far."""
    items = query(batch_pk(key), INPUT_COUNT)
    return Counts(*(sum(int(item.get(name, 0)) for item in items) for name in Counts._fields))


def _count(key: BatchKey, n: int, what: str) -> Operation:
    return change(input_count_key(key, n), f"ADD #{what} :one", ANYHOW, {":one": 1})


def _batch(item: dict[str, Any]) -> Batch:
    failure = item.get("failure")
    changing = {
        "pace": json.loads(item["pace"]),
        "status": item["status"],
        "executions": int(item["executions"]),
        "resumed_at": item.get("resumed_at"),
        "ended_at": item.get("ended_at"),
        "failure": json.loads(failure) if failure else None,
    }
    numbers = {name: int(item[name]) for name in ("total", "succeeded", "failed") if name in item}
    return Batch.model_validate(json.loads(item["body"]) | changing | numbers)


def _standing(item: dict[str, Any]) -> StandingInput:
    failure = item.get("failure")
    run_id = item.get("run_id")
    return StandingInput(
        task_tokens_in(item),
        RunId(run_id) if run_id else None,
        item.get("succeeded"),
        Failure.model_validate_json(failure) if failure else None,
    )
