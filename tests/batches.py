"""A batch in tables and a bucket in memory, whose state machine is played by the test."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from stepagent import cancelling, resuming
from stepagent.agents import AgentSpec
from stepagent.api import batches as api
from stepagent.api import beginning
from stepagent.api.batch_requests import read_batch_request
from stepagent.api.keys import Caller
from stepagent.batches import ends, preparing, running, starting
from stepagent.batches.models import Batch, BatchKey, InputRef, batch_key
from stepagent.catalog import FoundAgent
from stepagent.ending import end_run, tell_end
from stepagent.executions import current_execution
from stepagent.runs import Outcome, Principal, Run, RunId, RunStatus, StopReason
from stepagent.store.batches import find_input, require_batch
from stepagent.store.runs import require_run
from tests import bucket
from tests.tables import empty_tables

ANN = Principal("ann")
HELPER = FoundAgent(AgentSpec(name="helper", instructions="Help."), (), {})


class Service:
    """Executions and the states that wait in them. Stands for Step Functions."""

    def __init__(self) -> None:
        self.runs: list[str] = []  # executions of runs that were started
        self.batches: list[str] = []
        self.stopped: list[str] = []
        self.answered: list[tuple[str, bool]] = []
        self.status: str | None = "RUNNING"  # of a batch's execution

    def start_run(self, run: Run) -> bool:
        name = current_execution(run)
        self.runs.append(name)
        return self.runs.count(name) == 1

    def start_batch(self, batch: Batch) -> bool:
        name = starting_name(batch)
        self.batches.append(name)
        return self.batches.count(name) == 1

    def answer(self, token: str, *, succeeded: bool) -> None:
        self.answered.append((token, succeeded))


def starting_name(batch: Batch) -> str:
    return f"{batch.batch_id}-{batch.executions}"


def install(patch: pytest.MonkeyPatch) -> Service:
    """Empties record and bucket, and puts a `Service` in the place of the real one."""
    empty_tables()
    bucket.empty_bucket()
    fake = Service()
    patch.setattr(beginning, "find_agent", lambda name: HELPER)
    patch.setattr(api, "find_agent", lambda name: HELPER)
    patch.setattr(beginning, "start_execution", fake.start_run)
    patch.setattr(resuming, "start_execution", fake.start_run)
    patch.setattr(resuming, "execution_status", lambda run: "RUNNING")
    patch.setattr(cancelling, "stop_execution", lambda run: None)
    patch.setattr(starting, "start_execution", fake.start_batch)
    patch.setattr(starting, "execution_status", lambda batch: fake.status)
    patch.setattr(starting, "stop_execution", lambda batch: fake.stopped.append(starting_name(batch)))
    for module in (ends, running):
        patch.setattr(module, "answer_state", fake.answer)
    return fake


def begin(inputs: Any, batch_id: str = "b1", owner: Principal = ANN, **fields: Any) -> Mapping[str, Any]:
    """Begins a batch through the API."""
    body = {"agent": "helper", "batch_id": batch_id, "inputs": inputs, **fields}
    given = {name: value for name, value in body.items() if value is not None}
    return api.begin_batch(read_batch_request(json.dumps(given).encode()), Caller(owner))


def key(batch_id: str = "b1", owner: Principal = ANN) -> BatchKey:
    return batch_key(owner, batch_id)


def prepare(batch_id: str = "b1") -> list[InputRef]:
    """What the Map reads."""
    prepared = preparing.prepare_batch(key(batch_id))
    assert prepared.next == "run"
    return [InputRef.model_validate_json(line) for line in bucket.read(prepared.index_key).splitlines()]


def run_of(ref: InputRef) -> Run:
    standing = find_input(ref.batch, ref.n)
    assert standing
    assert standing.run_id
    return require_run(standing.run_id)


def end(run_id: RunId, answer: str = "Here.", status: RunStatus = RunStatus.COMPLETED) -> None:
    """Ends a run as Think does."""
    reason = StopReason.ANSWERED if status is RunStatus.COMPLETED else StopReason.FAILED
    tell_end(end_run(require_run(run_id), Outcome(status, reason, answer)))


def lines_of(name: str, batch_id: str = "b1") -> list[dict[str, Any]]:
    """A file of the batch."""
    return [json.loads(line) for line in bucket.read(require_batch(key(batch_id)).object_key(name)).splitlines()]
