"""What the runtime tells a tool about the call that it answers; the model neither sees nor sets any of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from stepagent.clock import now
from stepagent.messages import CallId
from stepagent.runs import Principal, RunId, SessionKey


@dataclass(frozen=True)
class ToolContext:
    """The call under way. A parameter of this type is filled in by the runtime.

    `session` is the conversation's key, the same in all its runs; `caller` is who asked, as the API knows them;
    `deadline` is when the tool is ended, in UTC.
    """

    run_id: RunId
    session: SessionKey
    call_id: CallId
    caller: Principal
    deadline: datetime

    @property
    def idempotency_key(self) -> str:
        """The same whenever this call is repeated, and of no other call: made for services that take such a key."""
        return f"{self.run_id}/{self.call_id}"

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, (self.deadline - now()).total_seconds())

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> NoReturn:
        # As a part of another type it would become an argument like any other, which the model sets.
        raise TypeError("a ToolContext is a parameter of its own")
