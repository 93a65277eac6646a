"""What the routes of batches do: begun, listed, read, cancelled, and their results shown page by page."""

import hashlib
import json
import secrets
from typing import Any

from stepagent.api.batch_requests import BatchesQuery, BatchRequest, ResultsQuery, SourceRequest
from stepagent.api.keys import Caller
from stepagent.batches import starting
from stepagent.batches.finishing import FAILURES, RESULTS
from stepagent.batches.models import (
    ENDED,
    UPLOADS,
    Batch,
    BatchSource,
    SourceFormat,
    batch_key,
    folder_of,
)
from stepagent.catalog import find_agent
from stepagent.clock import now
from stepagent.errors import Conflict, IdempotencyKeyReused, InvalidRequest, NotFound
from stepagent.runs import Principal
from stepagent.store.batch_files import put_object, read_range
from stepagent.store.batches import find_batch, list_batches, read_counts, require_batch

_PAGE_BYTES = 4 * 1024 * 1024  # a function answers with 6 MB at most, in which a text takes more than its bytes


def begin_batch(request: BatchRequest, caller: Caller, idempotency_key: str = "") -> dict[str, Any]:
    """Begins a batch; one with the same id goes on where it stopped, at the pace that is asked for now.

    Raises:
        NotFound: there is no such agent.
        InvalidRequest: the source is not the caller's.
        IdempotencyKeyReused: the id, or the key, was sent with another batch.
    """
    find_agent(request.agent)
    owner = caller.principal
    batch_id = request.batch_id or _id_from(idempotency_key)
    content, form = _content(request), _format(request)
    source = BatchSource(key="", format=form) if request.source is None else _source(request.source, form, owner)
    digest = _digest(request, source, content)
    batch = Batch(
        batch_id=batch_id,
        owner=owner,
        agent=request.agent,
        source=source,
        digest=digest,
        metadata=request.metadata,
        used_key=caller.used_key,
        created_at=now(),
        pace=request.pace,
    )
    if content is not None and find_batch(batch.key) is None:
        # Named by what it holds, so that of two that begin at once neither changes the other's inputs.
        batch = batch.model_copy(
            update={"source": BatchSource(key=batch.object_key(f"source-{digest[:16]}"), format=form)}
        )
        put_object(batch.source.key, content)
    begun = starting.start_batch(batch)
    if begun.digest != digest:
        raise IdempotencyKeyReused(f"Batch {batch_id!r} began with other inputs or another agent.", "batch_id")
    return show(begun)


def show_batch(batch_id: str, principal: Principal) -> dict[str, Any]:
    """A batch as it stands.

    Raises:
        NotFound: this principal has none of that id.
    """
    return show(_own(batch_id, principal))


def show_batches(query: BatchesQuery, principal: Principal) -> dict[str, Any]:
    """Batches that this principal began, the newest first.

    Raises:
        NotFound: `after` is no batch of this principal.
    """
    after = _own(query.after, principal) if query.after else None
    keys = list_batches(principal, query.limit + 1, after)
    data = [show(require_batch(key)) for key in keys[: query.limit]]
    more = len(keys) > query.limit
    return {"object": "list", "data": data, "has_more": more, "next": data[-1]["batch_id"] if more else None}


def cancel(batch_id: str, principal: Principal) -> dict[str, Any]:
    """Ends a batch of this principal, and the runs that it began; one that has ended stays as it is.

    Raises:
        NotFound: there is none.
    """
    return show(starting.cancel_batch(_own(batch_id, principal).key))


def show_results(batch_id: str, query: ResultsQuery, principal: Principal) -> dict[str, Any]:
    """A page of what came of a batch's inputs, by their ids.

    Raises:
        NotFound: this principal has no such batch.
        Conflict: it has not ended.
    """
    batch = _own(batch_id, principal)
    if batch.status not in ENDED:
        raise Conflict(f"Batch {batch.batch_id!r} goes on; its results stand together at its end.", None, "batch_busy")
    key = batch.object_key(RESULTS if query.kind == "succeeded" else FAILURES)
    page = b"" if batch.total is None else _whole_lines(key, query.after)
    lines = page.splitlines(keepends=True)[: query.limit]
    following = query.after + sum(map(len, lines))
    more = bool(lines) and bool(read_range(key, following, 1))
    data = [json.loads(line) for line in lines]
    return {"object": "list", "data": data, "has_more": more, "next": following if more else None}


def show(batch: Batch) -> dict[str, Any]:
    """A batch as its owner may see it."""
    ended = batch.status in ENDED
    shown = batch.model_dump(
        mode="json",
        include={"batch_id", "agent", "status", "failure", "metadata", "created_at", "ended_at", "executions"},
    )
    files = {"results": batch.object_key(RESULTS), "failures": batch.object_key(FAILURES)}
    return {
        "object": "batch",
        **shown,
        **batch.pace.model_dump(),
        "counts": _counts(batch),
        "files": files if ended and batch.total is not None else None,
    }


def _counts(batch: Batch) -> dict[str, int | None]:
    """How the inputs stand; what is not known yet is null."""
    if batch.status in ENDED:
        return {"total": batch.total, "pending": 0, "running": 0, "succeeded": batch.succeeded, "failed": batch.failed}
    counts = read_counts(batch.key)
    pending = None if batch.total is None else batch.total - counts.started
    running = counts.started - counts.succeeded - counts.failed
    return {
        "total": batch.total,
        "pending": pending,
        "running": running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
    }


def _whole_lines(key: str, at: int) -> bytes:
    """Lines of an object from byte `at` on: some megabytes of them, or one that is longer."""
    size = _PAGE_BYTES
    page = read_range(key, at, size)
    while page and b"\n" not in page and len(page) == size:
        size *= 2
        page = read_range(key, at, size)
    return page[: page.rfind(b"\n") + 1]


def _own(batch_id: str, principal: Principal) -> Batch:
    batch = find_batch(batch_key(principal, batch_id))
    if batch is None:
        raise NotFound(f"There is no batch {batch_id[:64]!r}.", "batch_id")
    return batch


def _id_from(idempotency_key: str) -> str:
    digest = hashlib.sha256(idempotency_key.encode()).hexdigest() if idempotency_key else secrets.token_hex(12)
    return f"batch-{digest[:24]}"


def _format(request: BatchRequest) -> SourceFormat:
    name = (request.source.key if request.source else None) or ""
    return request.format or ("csv" if name.lower().endswith(".csv") else "jsonl")


def _content(request: BatchRequest) -> bytes | None:
    """The file of inputs that were sent along."""
    if isinstance(request.inputs, list):
        if request.format == "csv":
            raise InvalidRequest("A list of inputs is no CSV; send the text of the file.", "format")
        return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in request.inputs)
    return request.inputs.encode() if request.inputs is not None else None


def _source(given: SourceRequest, form: SourceFormat, owner: Principal) -> BatchSource:
    folder = f"{UPLOADS}{folder_of(owner)}/"
    name = given.key or given.prefix or ""
    if not name.startswith(folder):
        raise InvalidRequest(f"Your sources stand below {folder!r} of the stack's bucket.", "source")
    return BatchSource(key=name, is_prefix=given.key is None, format=form)


def _digest(request: BatchRequest, source: BatchSource, content: bytes | None) -> str:
    """Of what is asked, without the pace. A source's name stands for it: its first copy is what counts."""
    said = [request.agent, request.metadata, source.model_dump(), hashlib.sha256(content or b"").hexdigest()]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
