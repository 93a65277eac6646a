"""Questions to people in tables in memory: asked in runs that are there, with the loop played by the test."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from stepagent import answering, asking, delivering
from stepagent.announcing import view
from stepagent.answering import read_interaction
from stepagent.asking import ask
from stepagent.clock import now
from stepagent.runs import Call, CallAddress, CallResult, InteractionId, Run, RunId
from stepagent.store import questions as store
from stepagent.store.calls import load_call
from stepagent.store.journal import Event, read_events
from stepagent.store.runs import require_run
from tests.builders import OWNER, RUN_ID, a_call, a_run, a_tool
from tests.recorded import begin
from tests.tables import empty_tables

CHILD_ID = RunId("run_0child_1")
ASK = a_tool("ask", kind="interactive", target="", parameters={"type": "object"})
SEND = a_tool("send", approval="always", bound={"count": 3}, approval_timeout_s=60, timeout_s=10)
NOTHING = {"kind": "none"}


class Loop:
    """States that wait, each with its token. Stands for `executions.resume_execution`."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.before_sending: Callable[[], None] = lambda: None

    def resume(self, token: str, next_kind: Mapping[str, Any] = NOTHING) -> bool:
        before, self.before_sending = self.before_sending, lambda: None
        before()
        self.sent.append((token, next_kind))
        alive = token in self.waiting
        self.waiting.discard(token)
        return alive


class Died(BaseException):
    """What ends a process in the middle, whatever it would catch."""


def dies() -> None:
    raise Died


def install(patch: pytest.MonkeyPatch) -> Loop:
    """Empties the record, and puts a `Loop` in the place of the state machine."""
    empty_tables()
    waiting = Loop()
    for module in (delivering, asking):
        patch.setattr(module, "resume_execution", waiting.resume)
    patch.setattr(delivering, "ensure_execution", lambda run: run)  # it has lost none
    patch.setattr(delivering, "_RETRIES_S", 0)
    return waiting


def make_later(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Makes it so many seconds later."""
    moment: datetime = now() + timedelta(seconds=seconds)
    for module in (answering, delivering, store):
        patch.setattr(module, "now", lambda: moment)


def begun(*calls: Call, run_id: RunId = RUN_ID, **changes: Any) -> Run:
    """A run whose first turn made these calls."""
    return begin(a_run(ASK, SEND, a_tool(), run_id=run_id, created_at=now(), **changes), *calls)


def child_of(above: Call, *calls: Call) -> Run:
    """The run of an agent that this call of the first run asked."""
    place = CallAddress(run_id=RUN_ID, call_id=above.call_id)
    return begun(*calls, run_id=CHILD_ID, parent=place, top=place, depth=1)


def a_question(position: int = 0, **arguments: Any) -> Call:
    return a_call(position, name="ask", kind="interactive", timeout_s=60, arguments={"question": "Which?", **arguments})


def an_approval(position: int = 0, **changes: Any) -> Call:
    values = {"name": "send", "bound": {"count": 3}, "needs_approval": True, **changes}
    return a_call(position, **values)


def asked(loop: Loop, call: Call, run_id: RunId = RUN_ID, token: str = "") -> InteractionId:
    """Enters the AskPerson state for a call; its question."""
    token = token or f"token-{run_id}-{call.call_id}"
    loop.waiting.add(token)
    ask(run_id, call.call_id, token)
    question = load_call(require_run(run_id).key, call.key).question
    assert question
    return question


def standing(call: Call, run_id: RunId = RUN_ID) -> Call:
    return load_call(require_run(run_id).key, call.key).call


def result_of(call: Call, run_id: RunId = RUN_ID) -> CallResult:
    found = standing(call, run_id).result
    assert found
    return found


def events(run_id: RunId = RUN_ID) -> list[Event]:
    return [event for event in read_events(run_id, 0) if event.type.startswith(("interaction", "tool"))]


def types(run_id: RunId = RUN_ID) -> list[str]:
    return [event.type for event in events(run_id)]


def shown_to_owner(question: InteractionId) -> dict[str, Any]:
    return view(read_interaction(question, OWNER))


def statuses(question: InteractionId) -> list[str]:
    return [change.status for change in read_interaction(question, OWNER).history]
