"""What clients send about batches, checked; refusals name the field."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from stepagent.api.body import FORMS, Body, read_body
from stepagent.api.chat_fields import Metadata
from stepagent.api.query import Query
from stepagent.batches.models import MAX_CONCURRENCY, Pace, SourceFormat

_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


class SourceRequest(Body):
    """Inputs that stand in the stack's bucket, below the caller's own folder: one object, or all below a prefix."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["key"]}, {"required": ["prefix"]}]})

    key: str | None = Field(None, min_length=1, max_length=1024)
    prefix: str | None = Field(None, min_length=1, max_length=1024)

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "SourceRequest":
        if (self.key is None) == (self.prefix is None):
            raise ValueError("a source has either a key or a prefix")
        return self


class BatchRequest(Body):
    """Many inputs for one agent: sent along, as a list or as the text of a JSONL or CSV file, or kept in the bucket."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["inputs"]}, {"required": ["source"]}]})

    agent: str
    batch_id: str | None = Field(None, pattern=_ID, description="Yours: sent again, the same batch goes on.")
    inputs: (
        Annotated[
            Annotated[str, Field(min_length=1), Tag(FORMS[0])]
            | Annotated[list[str | dict[str, Any]], Field(min_length=1), Tag(FORMS[1])],
            Discriminator(lambda given: FORMS[isinstance(given, list)]),
        ]
        | None
    ) = None
    source: SourceRequest | None = None
    format: SourceFormat | None = Field(None, description="Of a file; by its name where it is not said, else JSONL.")
    max_concurrency: int = Field(10, ge=1, le=MAX_CONCURRENCY)
    tolerated_failure_count: int | None = Field(None, ge=0)
    tolerated_failure_percentage: float | None = Field(None, ge=0, le=100)
    metadata: Metadata = Field({})

    @model_validator(mode="after")
    def _has_inputs_from_one_place(self) -> "BatchRequest":
        if (self.inputs is None) == (self.source is None):
            raise ValueError("a batch has either inputs or a source")
        return self

    @property
    def pace(self) -> Pace:
        given = {
            name: getattr(self, name)
            for name in ("tolerated_failure_count", "tolerated_failure_percentage")
            if getattr(self, name) is not None
        }
        return Pace(max_concurrency=self.max_concurrency, **given)


class BatchesQuery(Query):
    """Which batches to list. `after` is the id behind which the list goes on."""

    limit: int = Field(20, ge=1, le=100)
    after: str | None = None


class ResultsQuery(Query):
    """Which results to show: of inputs that succeeded, or that failed; `after` is `next` of the page before."""

    kind: Literal["succeeded", "failed"] = "succeeded"
    limit: int = Field(100, ge=1, le=1000)
    after: int = Field(0, ge=0, lt=2**53)


def read_batch_request(body: bytes) -> BatchRequest:
    """Reads and checks the body of a batch to begin. Raises as `read_chat_request` does."""
    return read_body(body, BatchRequest)
