"""The PrepareBatch state: copies the inputs of a batch, so that they stay as they are, and brings them into order."""

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Literal

from stepagent.batches.models import MAX_INPUTS, Batch, BatchKey, BatchStatus, CopiedInput, InputRef, in_order
from stepagent.batches.reading import read_inputs
from stepagent.errors import InvalidRequest, RequestError
from stepagent.models import Frozen
from stepagent.runs import Failure
from stepagent.settings import settings
from stepagent.store.batch_files import list_objects, read_chunks, upload, write_lines
from stepagent.store.batches import BatchOutcome, close_batch, note_total, require_batch

INPUTS, INDEX, MAP = "inputs.jsonl", "index.jsonl", "map"  # the copy, where each stands in it, what the Map writes


class Prepared(Frozen):
    """What the state machine needs in order to run the inputs, or `finish` where there are none to run."""

    batch: BatchKey
    next: Literal["run", "finish"]
    bucket: str
    index_key: str
    map_prefix: str
    max_concurrency: int
    tolerated_failure_count: int
    tolerated_failure_percentage: float


def prepare_batch(key: BatchKey) -> Prepared:
    """Reads the source once; a batch whose inputs stand in order keeps them, whatever became of its source.

    Raises:
        NotFound: there is no such batch.
    """
    batch = require_batch(key)
    runs = batch.status is BatchStatus.RUNNING
    if runs and batch.total is None:
        try:
            note_total(key, _copy(batch))
        except RequestError as error:
            failure = Failure(code="invalid_source", message=error.message)
            close_batch(key, BatchOutcome(BatchStatus.FAILED, 0, 0, failure))
            runs = False
    return Prepared(
        batch=key,
        next="run" if runs else "finish",
        bucket=settings().bucket,
        index_key=batch.object_key(INDEX),
        map_prefix=batch.object_key(MAP),
        max_concurrency=batch.pace.max_concurrency,
        tolerated_failure_count=batch.pace.tolerated_failure_count,
        tolerated_failure_percentage=batch.pace.tolerated_failure_percentage,
    )


def _copy(batch: Batch) -> int:
    """Writes the copy of the inputs, and the list of where each stands in it, by id. Returns how many there are.

    Raises:
        RequestError: the source is not there, holds nothing, or too much.
    """
    found: list[tuple[str, int, int, int]] = []
    with TemporaryFile() as file:
        at = 0
        for copied in _inputs(batch):
            if len(found) == MAX_INPUTS:
                raise InvalidRequest(f"The source has more than {MAX_INPUTS} inputs. Split it.", "source")
            line = copied.model_dump_json(exclude_defaults=True).encode() + b"\n"
            file.write(line)
            found.append((copied.id, copied.line, at, len(line)))
            at += len(line)
        if not found:
            raise InvalidRequest("The source has no inputs.", "source")
        upload(batch.object_key(INPUTS), file)
    found.sort(key=lambda each: (in_order(each[0]), each[1]))
    refs = (
        InputRef(batch=batch.key, n=n, id=id_, line=line, at=at, size=size)
        for n, (id_, line, at, size) in enumerate(found)
    )
    write_lines(batch.object_key(INDEX), (ref.model_dump_json().encode() for ref in refs))
    return len(found)


def _inputs(batch: Batch) -> Iterator[CopiedInput]:
    source = batch.source
    if not source.is_prefix:
        yield from read_inputs(read_chunks(source.key), source.format)
        return
    for number, key in enumerate(list_objects(source.key, MAX_INPUTS), 1):
        yield CopiedInput(id=key.removeprefix(source.key)[:128], line=number, object_key=key)
