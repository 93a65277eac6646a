"""What the routes answer with, as the OpenAPI document shows it.

Replies may have more fields. They are not made from these models; a test holds real replies against them.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stepagent.agents import Strategy
from stepagent.batches.models import BatchStatus
from stepagent.interactions import InteractionStatus
from stepagent.planning.plan import Plan
from stepagent.replies.reply_to import ReplyTo
from stepagent.runs import CallAddress, Failure, RunStatus, StopReason


class Reply(BaseModel):
    model_config = ConfigDict(defer_build=True)  # few who start the function want the document


class ErrorDetail(Reply):
    message: str
    type: str
    param: str | None = Field(description="The field that is wrong.")
    code: str


class Error(Reply):
    """As OpenAI clients read errors; where a run failed, `stepagent` beside it tells which."""

    error: ErrorDetail


class List(Reply):
    """The whole of a list, or one page."""

    object: Literal["list"]


class ChatUsage(Reply):
    """Tokens of all model calls of a run."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]
    completion_tokens_details: dict[str, int]


class Standing(Reply):
    """Which run it is and how it stands."""

    run_id: str
    session_id: str
    status: RunStatus
    stop_reason: StopReason | None
    turns: int


class ChatCompletion(Reply):
    """As OpenAI has it. `choices` is empty where the run goes on behind the request."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: ChatUsage
    stepagent: Standing


class Response(Reply):
    """As OpenAI's Responses API has it."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    model: str
    output: list[dict[str, Any]]
    previous_response_id: str | None
    usage: dict[str, Any] | None
    stepagent: Standing


class Model(Reply):
    """An agent, as clients list models."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    description: str


class RunSummary(Reply):
    object: Literal["run"]
    run_id: str
    session_id: str
    agent: str
    metadata: dict[str, str]
    user: str
    status: RunStatus
    stop_reason: StopReason | None
    failure: Failure | None
    created_at: datetime
    ended_at: datetime | None
    turns: int
    usage: ChatUsage
    cost_usd: float | None = Field(description="US dollars, null where a price is not known.")
    interactions: list[str] = Field(description="Ids of the questions that it waits with.")
    parent: CallAddress | None = Field(description="The call of another run that asked for it.")
    strategy: Strategy = Field(description="How it works; `auto` until its model has chosen.")
    strategy_reason: str | None = Field(description="Why its model chose so.")


class RunView(RunSummary):
    """A run as its owner sees it."""

    answer: str
    plan: Plan | None = Field(description="Its steps as they stand now.")
    reply_to: ReplyTo | None = Field(description="Where its result is sent when it has ended.")


class Entry(Reply):
    """A message, or a call with its result."""

    n: int = Field(description="Counts from 1; an entry keeps its number.")
    type: Literal["message", "call"]


class BatchCounts(Reply):
    """How the inputs of a batch stand; null where that is not known yet."""

    total: int | None
    pending: int | None
    running: int
    succeeded: int | None
    failed: int | None


class BatchView(Reply):
    object: Literal["batch"]
    batch_id: str
    agent: str
    status: BatchStatus
    failure: Failure | None
    metadata: dict[str, str]
    created_at: datetime
    ended_at: datetime | None
    executions: int
    max_concurrency: int
    tolerated_failure_count: int
    tolerated_failure_percentage: float
    counts: BatchCounts
    files: dict[str, str] | None = Field(description="Where its results stand in the stack's bucket.")


class BatchResult(Reply):
    """What came of an input. One that succeeded has an `answer`, one that failed a `failure`."""

    input_id: str
    line: int
    run_id: str | None
    status: RunStatus


class InteractionView(Reply):
    """A question to a person; its type says which fields there are beside these."""

    interaction_id: str
    run_id: str
    call_id: str
    tool: str
    type: Literal["text", "choice", "form", "approval", "plan"]
    description: str
    text: str = Field(description="The question in words.")
    status: InteractionStatus
    answer: str | dict[str, Any] | None
    created_at: datetime
    expires_at: datetime


class Session(Reply):
    object: Literal["session"]
    id: str
    active_run: str | None
    interactions: list[InteractionView]
    runs: list[RunSummary]
    has_more: bool


class Row(Reply):
    """An agent or a tool. `version` and `row` are shown to keys with the scope `catalog`."""

    object: Literal["agent", "tool"]
    name: str


class ModelList(List):
    data: list[Model]


class RunList(List):
    data: list[RunSummary]
    has_more: bool
    next: str | None = Field(description="What `after` takes for the next page.")


class EntryList(List):
    data: list[Entry]
    has_more: bool
    next: int | None = Field(description="What `after` takes for the next page.")


class BatchList(List):
    data: list[BatchView]
    has_more: bool
    next: str | None


class BatchResultList(List):
    data: list[BatchResult]
    has_more: bool
    next: int | None


class InteractionList(List):
    data: list[InteractionView]
    has_more: bool
    next: str | None = Field(description="What `after` takes for the next page.")


class RowList(List):
    data: list[Row]
