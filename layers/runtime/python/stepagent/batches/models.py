"""A batch, its inputs, and how they stand."""

import hashlib
import re
from base64 import b32encode
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stepagent.api.chat_fields import Metadata
from stepagent.models import Frozen
from stepagent.runs import Failure, Principal, RunId
from stepagent.spending import UsedKey

MAX_INPUTS = 100_000  # of a batch: what one function brings into order in its memory, and reads in its time
MAX_INPUT_CHARS = 200_000
MAX_CONCURRENCY = 1_000  # inputs at once: an account's functions are as many, unless it asked for more
UPLOADS = "batches/inputs/"
OUTPUTS = "batches/results/"

BatchKey = NewType("BatchKey", str)
SourceFormat = Literal["jsonl", "csv"]


class BatchStatus(StrEnum):
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.CANCELLED})


class BatchSource(Frozen):
    """Where the inputs stand in the stack's bucket: an object with one a line, or the objects below a prefix."""

    key: str
    is_prefix: bool = False
    format: SourceFormat = "jsonl"


class Pace(Frozen):
    """How inputs are run, which another start of the same batch may change. More failures than tolerated end it."""

    max_concurrency: int = Field(10, ge=1, le=MAX_CONCURRENCY)
    tolerated_failure_count: int = Field(MAX_INPUTS, ge=0)
    tolerated_failure_percentage: float = Field(100, ge=0, le=100)


class Batch(Frozen):
    """Many inputs for one agent. `total` and the counts at the end are None until they are known."""

    batch_id: str
    owner: Principal
    agent: str
    source: BatchSource
    digest: str = Field(description="Of what is asked, without the pace: the same batch has the same.")
    metadata: dict[str, str] = Field(default_factory=dict)
    used_key: UsedKey | None = None
    created_at: datetime
    pace: Pace = Pace()
    status: BatchStatus = BatchStatus.RUNNING
    executions: int = Field(1, description="How many carried it on, one after the other.")
    resumed_at: datetime | None = None
    total: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    failure: Failure | None = None
    ended_at: datetime | None = None

    @property
    def key(self) -> BatchKey:
        return batch_key(self.owner, self.batch_id)

    def object_key(self, name: str) -> str:
        """Where a file of this batch stands in the stack's bucket."""
        return f"{OUTPUTS}{folder_of(self.owner)}/{self.batch_id}/{name}"


class Counts(NamedTuple):
    """How many inputs began, and how they ended."""

    started: int
    succeeded: int
    failed: int


class InputRef(Frozen):
    """All that the state machine knows of an input: its number, and where it stands in the batch's copy of them.

    `at` and `size` are bytes, `line` counts a source's lines from 1.
    """

    batch: BatchKey
    n: int
    id: str
    line: int
    at: int
    size: int


class StandingInput(NamedTuple):
    """An input that began, with every token that its state has waited with.

    `succeeded` is None until it ends; `failure` is set where it failed without a run.
    """

    task_tokens: frozenset[str]
    run_id: RunId | None
    succeeded: bool | None
    failure: Failure | None


def _as_text(given: Any) -> Any:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


class InputLine(BaseModel):
    """One input as its line has it. Other fields are the author's own, such as the answer that is expected."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    id: Annotated[str, BeforeValidator(_as_text)] = Field("", max_length=128)
    input: str = Field(max_length=MAX_INPUT_CHARS)
    session_id: str | None = Field(None, min_length=1, max_length=128)
    metadata: Metadata = Field(default_factory=dict)


class CopiedInput(Frozen):
    """One line of a batch's copy of its inputs: what to ask, the object that holds it, or why there is nothing."""

    id: str
    line: int
    asked: InputLine | None = None
    object_key: str = ""
    problem: str = ""


def batch_key(owner: Principal, batch_id: str) -> BatchKey:
    """Where a principal's batch stands in the record. Two principals never meet in one, whatever names they give."""
    digest = hashlib.sha256(f"{owner}\0{batch_id}".encode()).digest()
    return BatchKey(b32encode(digest).decode().lower()[:32])


def job_id_of(batch: Batch, n: int) -> str:
    """By which the run of an input is known to have begun, before it is noted with the input."""
    return f"batch/{batch.batch_id}/{n}"


def folder_of(owner: Principal) -> str:
    """The name of a principal's folders in the bucket: a principal may hold anything that a token says."""
    return quote(owner, safe="@")


def in_order(input_id: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts ids as people do: what are digits counts as a number, so `line 9` stands before `line 10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", input_id)
    return tuple((0, int(part)) if part[0] in "0123456789" else (1, part) for part in parts)
