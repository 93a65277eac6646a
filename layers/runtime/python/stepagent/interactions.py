"""A question that a person was asked, and what came of it: what the record holds."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from stepagent.answers import Answer
from stepagent.messages import CallId
from stepagent.models import Frozen
from stepagent.questions import Question
from stepagent.runs import CallAddress, InteractionId, Principal, RunId


class InteractionStatus(StrEnum):
    PENDING = "pending"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class StatusChange(Frozen):
    """What happened to a question: it took another status, or its owner was reminded and it kept its own."""

    status: InteractionStatus | Literal["reminded"]
    at: datetime


class Interaction(Frozen):
    """One question to a person and what came of it. The task token stands beside it in the record, never in it.

    `top` is the call of the run that the person follows, where an agent asks that was called by another one.
    """

    interaction_id: InteractionId
    run_id: RunId
    call_id: CallId
    top: CallAddress | None = None
    tool: str
    owner: Principal
    question: Question
    created_at: datetime
    expires_at: datetime
    status: InteractionStatus = InteractionStatus.PENDING
    answer: Answer | None = None
    history: tuple[StatusChange, ...] = ()

    @property
    def call(self) -> CallAddress:
        return CallAddress(run_id=self.run_id, call_id=self.call_id)

    @property
    def places(self) -> tuple[CallAddress, ...]:
        """The calls that wait for its answer, each as its own run knows it."""
        return (self.call, self.top) if self.top else (self.call,)

    def waited_s(self, moment: datetime) -> int:
        """Seconds for which it had waited by then; none where the clock of who asked is ahead."""
        return max(0, round((moment - self.created_at).total_seconds()))
