"""The FinishBatch state, and the target of the rule on batches that died: writes what came of the inputs, in order.

What a run came to is read from the record, so it does not matter which execution ran it, or how that ended.
"""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryFile
from typing import Any

from stepagent.api.idempotency import find_job
from stepagent.api.shapes import cost_usd, usage
from stepagent.batches.executions import BatchExecutionName
from stepagent.batches.models import ENDED, Batch, BatchKey, BatchStatus, InputRef, StandingInput, job_id_of
from stepagent.batches.preparing import INDEX
from stepagent.batches.reading import split_lines
from stepagent.batches.starting import ensure_batch_execution
from stepagent.cancelling import cancel_run
from stepagent.executions import SERVICE_RESTART
from stepagent.runs import ENDED as ENDED_RUNS
from stepagent.runs import Failure, Run, RunId, RunStatus
from stepagent.store.batch_files import read_chunks, upload
from stepagent.store.batches import BatchOutcome, close_batch, find_input, require_batch
from stepagent.store.runs import require_run

RESULTS, FAILURES = "results.jsonl", "failures.jsonl"

_READERS = 10  # as many connections as a client keeps
_HELD = 200  # results in memory
_NOT_RUN = "not_run"
_TOO_MANY = "States.ExceedToleratedFailureThreshold"

Result = dict[str, Any]


def batch_execution_ended(name: str, error: str) -> None:
    """Hears of an execution that did not succeed: its batch goes on in another one if it was lost, or is finished.

    Args:
        name: of the execution. Where another one has taken its place since, it tells nothing of the batch.
        error: the name of the error that ended it, or its status.

    Raises:
        NotFound: there is no such batch.
    """
    key, number = BatchExecutionName.parse(name)
    batch = require_batch(key)
    lost = error == SERVICE_RESTART and batch.status is BatchStatus.RUNNING
    if number < batch.executions or (lost and ensure_batch_execution(batch)):
        return
    finish_batch(key, error)


def finish_batch(key: BatchKey, error: str = "") -> Batch:
    """Writes the results and the failures, and closes the batch. Runs that go on still are cancelled. May be repeated.

    Args:
        key: the batch.
        error: why not all of its inputs were run, "" where they were.

    Raises:
        NotFound: there is no such batch.
    """
    batch = require_batch(key)
    if batch.status not in ENDED:
        written = _write(batch) if batch.total is not None else _Written()
        batch = require_batch(key)  # it may have been cancelled meanwhile
        close_batch(key, _outcome(batch, written, error))
    return require_batch(key)


@dataclass
class _Written:
    """How many inputs stand in each file; `not_run` of those that failed never had a run."""

    succeeded: int = 0
    failed: int = 0
    not_run: int = 0


def _outcome(batch: Batch, written: _Written, error: str) -> BatchOutcome:
    status, failure = BatchStatus.COMPLETED, None
    if batch.status is BatchStatus.CANCELLING:
        status = BatchStatus.CANCELLED
    elif error or written.not_run:
        status, failure = BatchStatus.FAILED, _explain(error, written.not_run)
    return BatchOutcome(status, written.succeeded, written.failed, failure)


def _explain(error: str, not_run: int) -> Failure:
    if error == _TOO_MANY:
        return Failure(code="too_many_failures", message="More inputs failed than the batch tolerates.")
    if not error:
        text = f"{not_run} of its inputs were not run. The same batch begun again runs them."
        return Failure(code="inputs_not_run", message=text)
    return Failure(
        code="internal_error", message=f"The batch stopped ({error}). The log of its state machine says why."
    )


def _write(batch: Batch) -> _Written:
    """Writes both files."""
    written = _Written()
    with TemporaryFile() as results, TemporaryFile() as failures:
        for result in _results(batch):
            good = result["status"] == RunStatus.COMPLETED
            (results if good else failures).write(json.dumps(result, ensure_ascii=False).encode() + b"\n")
            written.succeeded += good
            written.failed += not good
            written.not_run += result.get("failure", {}).get("code") == _NOT_RUN
        upload(batch.object_key(RESULTS), results)
        upload(batch.object_key(FAILURES), failures)
    return written


def _results(batch: Batch) -> Iterator[Result]:
    """What came of each input, in order."""
    with ThreadPoolExecutor(_READERS) as pool:
        for some in _chunks(_refs(batch), _HELD):
            yield from pool.map(partial(_result, batch), some)


def _refs(batch: Batch) -> Iterator[InputRef]:
    for line in split_lines(read_chunks(batch.object_key(INDEX))):
        yield InputRef.model_validate_json(line or b"")


def _result(batch: Batch, ref: InputRef) -> Result:
    """What came of an input; the run that goes on still is cancelled, since nobody waits for it any more."""
    standing = find_input(batch.key, ref.n)
    place = {"input_id": ref.id, "line": ref.line}
    run_id = _run_of(batch, ref, standing)
    if run_id is None:
        return {**place, **_without_run(batch, standing.failure if standing else None)}
    run = require_run(run_id)
    if run.status not in ENDED_RUNS:
        run = cancel_run(run.run_id)
    return {**place, **_of_run(run)}


def _run_of(batch: Batch, ref: InputRef, standing: StandingInput | None) -> RunId | None:
    """The run of an input, also where whoever started it died before it was noted."""
    if standing is None or standing.run_id or standing.failure:
        return standing.run_id if standing else None
    begun = find_job(batch.owner, job_id_of(batch, ref.n))
    return begun.run_id if begun else None


def _of_run(run: Run) -> Result:
    shown: Result = {"run_id": run.run_id, "session_id": run.session_id, "status": run.status}
    shown |= {"stop_reason": run.stop_reason, "answer": run.answer}
    if run.status is not RunStatus.COMPLETED:
        shown["failure"] = (run.failure or Failure(code="cancelled", message="The run was cancelled.")).model_dump()
    return shown | {"usage": usage(run.usage), "cost_usd": cost_usd(run.usage)}


def _without_run(batch: Batch, failure: Failure | None) -> Result:
    if failure is None:
        text = "The run of this input did not begin; the log of the function run_input may say why."
        if batch.status is BatchStatus.CANCELLING:
            text = "The batch was cancelled before this input began."
        failure = Failure(code=_NOT_RUN, message=text)
    return {"run_id": None, "status": RunStatus.FAILED, "failure": failure.model_dump()}


def _chunks(refs: Iterable[InputRef], size: int) -> Iterator[list[InputRef]]:
    found: list[InputRef] = []
    for ref in refs:
        found.append(ref)
        if len(found) == size:
            yield found
            found = []
    yield found
