"""What was seen when a case was run: the material of all assertions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepagent.messages import AssistantMessage, Message
from stepagent.runs import Call, Run, RunStatus, StopReason
from tests.conformance.cases import Json
from tests.conformance.wire import Asked


class Executed(NamedTuple):
    """A call that reached its tool. `raw` is the line that the tool wrote, digit by digit."""

    name: str
    arguments: Json
    wire_id: str
    raw: str


@dataclass
class Answer:
    """An answer of our HTTP API. `shown` is the JSON of its data lines where it is a stream."""

    status: int
    headers: dict[str, str]
    text: str
    label: str = ""

    @property
    def chunks(self) -> list[Any]:
        datas = [line[5:].strip() for line in self.text.splitlines() if line.startswith("data:")]
        return [json.loads(data) for data in datas if data != "[DONE]"]

    @property
    def body(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            return None


@dataclass
class Evidence:
    """One run of a case. `position` says which of several texts or bodies it belongs to."""

    label: str = ""
    position: int = 0
    run: Run | None = None
    entries: Sequence[Message | Call] = ()
    requests: list[Asked] = field(default_factory=list)
    executed: list[Executed] = field(default_factory=list)
    visible: str = ""
    deltas: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    state_before_resume: str = ""
    runs: int = 1
    sent_tools: list[Json] = field(default_factory=list)
    schemas_given: list[Json] = field(default_factory=list)
    provider: str = ""
    took_ms: float = 0
    facts: Json = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def bodies(self) -> list[Json]:
        return [asked.body for asked in self.requests]

    @property
    def last_messages(self) -> list[Json]:
        return list(self.bodies[-1].get("messages", [])) if self.requests else []

    @property
    def calls(self) -> list[Call]:
        return [entry for entry in self.entries if isinstance(entry, Call)]

    @property
    def replies(self) -> list[AssistantMessage]:
        return [entry for entry in self.entries if isinstance(entry, AssistantMessage)]

    @property
    def tool_messages(self) -> list[Json]:
        return [m for m in self.last_messages if m.get("role") in ("tool", "function")]


_COMPLETED = {
    StopReason.REFUSED: {"refused"},
    StopReason.OUTPUT_LIMIT: {"incomplete"},
    StopReason.MAX_TURNS: {"max_turns"},
}
_FAILED = {"content_filter": {"filtered"}, "model_reply_unusable": {"failed", "incomplete"}}


def states_of(run: Run | None) -> set[str]:
    """The bank's words for how a run stands."""
    if run is None:
        return set()
    if run.status is RunStatus.FAILED and run.failure:
        return _FAILED.get(run.failure.code, {"failed"})
    if run.status is RunStatus.COMPLETED and run.stop_reason in _COMPLETED:
        return _COMPLETED[run.stop_reason]
    return {"interrupted"} if run.status is RunStatus.WAITING else {str(run.status)}


def error_class(run: Run | None) -> str:
    """The bank's word for why a run failed. What broke off after its first words has no code of its own for that."""
    if run is None or run.failure is None:
        return ""
    code, message = run.failure.code, run.failure.message
    if code == "model_busy" or "busy or down" in message or "broke" in message:
        return "rate_limited" if "status 429" in message else "transient"
    return {
        "model_quota_spent": "quota",
        "model_context_exceeded": "context_length",
        "model_request_rejected": "invalid_request",
        "model_key_refused": "invalid_request",
        "model_lacks_tools": "invalid_request",
    }.get(code, code)
