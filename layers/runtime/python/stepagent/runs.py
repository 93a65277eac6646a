"""A run, its turns and its calls: what the record holds."""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NewType, Self

from pydantic import Field

from stepagent.agents import AgentSpec, Strategy
from stepagent.messages import AssistantMessage, CallId
from stepagent.models import Frozen
from stepagent.planning.plan import Plan, Why
from stepagent.replies.reply_to import ReplyTo
from stepagent.spending import UsedKey
from stepagent.tool_specs import ToolKind, ToolSpec
from stepagent.usage import Usage

RunId = NewType("RunId", str)
SessionKey = NewType("SessionKey", str)
InteractionId = NewType("InteractionId", str)
Principal = NewType("Principal", str)

_NUMBER = "(0|[1-9][0-9]{0,15})"  # as it is written, so that each thing has one id


class RunKey(NamedTuple):
    """Where a run stands: the n-th run of a session. Its id is written from it and read back, so no index is needed."""

    session: SessionKey
    ordinal: int

    @property
    def run_id(self) -> RunId:
        return RunId(f"run_{self.session}_{self.ordinal}")

    @classmethod
    def parse(cls, run_id: str) -> Self:
        """Reads a run id.

        Raises:
            ValueError: the text is not a run id.
        """
        parts = re.fullmatch(rf"run_([a-z0-9]{{1,64}})_{_NUMBER}", run_id)
        if parts is None:
            raise ValueError("not a run id")
        return cls(SessionKey(parts[1]), int(parts[2]))


class CallKey(NamedTuple):
    """Where a call stands: which reply of which run asked for it. Unique in a session, as providers want it."""

    ordinal: int
    turn: int
    position: int

    @property
    def call_id(self) -> CallId:
        return CallId(f"call_{self.ordinal}_{self.turn}_{self.position}")

    @classmethod
    @lru_cache(maxsize=4_096)  # each turn asks it several times of each call of the conversation
    def parse(cls, call_id: str) -> Self:
        """Reads a call id.

        Raises:
            ValueError: the text is not a call id.
        """
        numbers = re.fullmatch(rf"call_{_NUMBER}_{_NUMBER}_{_NUMBER}", call_id)
        if numbers is None:
            raise ValueError("not a call id")
        return cls(*map(int, numbers.groups()))


class RunStatus(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


class StopReason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"
    STOP_TOOL = "stop_tool"
    MAX_TURNS = "max_turns"
    MAX_REVISIONS = "max_revisions"
    MAX_CALLS = "max_calls"
    MAX_TOKENS = "max_tokens"
    MAX_COST = "max_cost"
    MAX_WALL_TIME = "max_wall_time"
    LOOP = "loop"
    OUTPUT_LIMIT = "output_limit"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Failure(Frozen):
    """Why a run failed: a code for programs and a sentence for people."""

    code: str
    message: str


class CallAddress(Frozen):
    """A call of a run."""

    run_id: RunId
    call_id: CallId


class ChosenStrategy(Frozen):
    """How the model chose to work in a run whose agent leaves that to it, and why."""

    strategy: Literal["react", "plan"]
    why: Why = ""


class BatchPlace(Frozen):
    """The input of a batch that a run answers. `n` counts a batch's inputs from 0, in the order of their results."""

    batch_id: str
    input_id: str
    n: int


class Run(Frozen):
    """One question and everything that was done to answer it. The agent and its tools are copies from its start.

    A run that another one's call asked for names that call as `parent`, and as `top` the call of the run at the top,
    which a person follows; `depth` counts the runs above it.
    """

    run_id: RunId
    session_id: str
    owner: Principal
    agent: AgentSpec
    tools: tuple[ToolSpec, ...]
    versions: dict[str, int] = Field(default_factory=dict, description="Of their rows, such as `tool search`.")
    system: str = Field("", description="System text that the caller added to the agent's instructions.")
    metadata: dict[str, str] = Field(default_factory=dict, description="What the caller noted about it.")
    user: str = Field("", description="Whom the caller asks for, in the caller's own words.")
    created_at: datetime
    parent: CallAddress | None = None
    top: CallAddress | None = None
    depth: int = 0
    used_key: UsedKey | None = Field(None, description="Which key it was started with, itself or from above.")
    batch: BatchPlace | None = None
    reply_to: ReplyTo | None = Field(None, description="Where its result is sent when it has ended.")
    status: RunStatus = RunStatus.RUNNING
    ended_at: datetime | None = None
    stop_reason: StopReason | None = None
    failure: Failure | None = None
    answer: str = ""
    usage: Usage = Usage()
    turns: int = 0
    pending: tuple[InteractionId, ...] = ()
    executions: int = Field(
        1, description="How many carried it on, one after the other: each but the last was lost, or handed it on."
    )
    resumed_at: datetime | None = None
    chosen: ChosenStrategy | None = None
    plan: Plan | None = None
    told: bool = Field(False, description="Whether its end was told to those who do not follow it.")

    @property
    def key(self) -> RunKey:
        return RunKey.parse(self.run_id)

    @property
    def strategy(self) -> Strategy:
        """How it works; `auto` until the model has chosen."""
        return self.chosen.strategy if self.chosen else self.agent.strategy

    @property
    def resumptions(self) -> int:
        """How often an execution took the place of one that was lost."""
        handed_on = self.chosen is not None and self.chosen.strategy == "plan"
        return self.executions - 1 - handed_on

    def tool(self, name: str) -> ToolSpec | None:
        return next((tool for tool in self.tools if tool.name == name), None)


# What a call asks for: a tool of this kind, a step of the run's plan, or whether a person confirms that plan.
CallKind = ToolKind | Literal["step", "plan"]


class CallStatus(StrEnum):
    PENDING = "pending"
    STARTED = "started"
    DONE = "done"


class CallResult(Frozen):
    """The one result of a call. `text` is what the model reads, `images` what it may look at (URLs).

    `kept_bytes` is set where the text is only a preview: the size of the whole, which is kept outside the record.
    `waited_s` are the seconds for which the call waited for a person.
    """

    text: str
    images: tuple[str, ...] = ()
    is_error: bool = False
    finished_at: datetime
    kept_bytes: int | None = None
    waited_s: int = 0


class Call(Frozen):
    """One tool call. Its function loads it by id, so nothing but ids passes through the state machine.

    The terms under which it runs (`kind` to `result_limit_bytes`) are copies from the tool's row; `caller` is the
    run's owner. A call with `needs_approval` runs only after a person approved of its arguments: `approved` is then
    their digest, and `edited` whether they are that person's.
    """

    call_id: CallId
    name: str
    arguments: dict[str, Any]
    kind: CallKind = "lambda"
    bound: dict[str, Any] = Field(default_factory=dict)
    caller: Principal = Principal("")
    needs_approval: bool = False
    timeout_s: int = 30
    idempotent: bool = False
    returns_directly: bool = False
    result_limit_bytes: int = 16_384
    status: CallStatus = CallStatus.PENDING
    approved: str = ""
    edited: bool = False
    result: CallResult | None = None

    @property
    def key(self) -> CallKey:
        return CallKey.parse(self.call_id)

    @property
    def is_step(self) -> bool:
        """Whether it carries out a step of the run's plan."""
        return self.kind == "step"

    @property
    def is_run(self) -> bool:
        """Whether another run answers it."""
        return self.kind in ("agent", "step")

    @property
    def all_arguments(self) -> dict[str, Any]:
        """The model's arguments and those that the author bound, which win."""
        return {**self.arguments, **self.bound}


class CallRef(Frozen):
    """All that the state machine knows of a call. `target` is a function's name."""

    call_id: CallId
    kind: Literal["tool", "workflow", "ask"]
    target: str
    timeout_s: int


class Decision(Frozen):
    """What a turn came to: the only thing that Think returns to the state machine.

    `confirm` and `answer` are for runs that work by a plan: its call is a person's to answer, or nothing is left to do
    but to answer.
    """

    run_id: RunId
    turn: int
    next: Literal["act", "confirm", "answer", "done", "wait", "fail"]
    reason: str = ""
    calls: tuple[CallRef, ...] = ()
    wait_s: int = 0
    max_concurrency: int = 1


class Outcome(NamedTuple):
    """How a run ended."""

    status: RunStatus
    stop_reason: StopReason
    answer: str = ""
    failure: Failure | None = None


class TurnRecord(NamedTuple):
    """All that a turn changes. `unsaid` is text for people that no stream has carried.

    `plan` is the run's plan where the turn changed it, and `news` why its steps are others, None where only their
    statuses are.
    """

    decision: Decision
    reply: AssistantMessage | None
    calls: Sequence[Call]
    usage: Usage
    outcome: Outcome | None = None
    failure: Failure | None = None
    unsaid: str = ""
    plan: Plan | None = None
    news: str | None = None
