"""Runs of the record over a Step Functions that runs nothing: executions and waiting states are a test's to move."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from stepagent import asking, delegation, delivering, resuming, returning
from stepagent.agents import AgentSpec
from stepagent.asking import ask
from stepagent.catalog import FoundAgent
from stepagent.clock import now
from stepagent.executions import LOST, current_execution
from stepagent.runs import Call, InteractionId, Run
from stepagent.store.runs import require_run
from tests.builders import RUN_ID, a_call, a_run, a_tool
from tests.recorded import begin
from tests.tables import empty_tables

ASK = a_tool("ask", kind="interactive", target="", parameters={"type": "object"})
QUESTION = a_call(name="ask", kind="interactive", arguments={"question": "Which?"})
HELPER = a_tool("helper", kind="agent", target="aide", parameters={"type": "object"})
DELEGATED = a_call(name="helper", kind="agent", arguments={"task": "find it"})


class Service:
    """Step Functions: executions by name, and the states that wait. Stands for `stepagent.executions`."""

    def __init__(self) -> None:
        self.standing: dict[str, str] = {}
        self.turns: dict[str, int] = {}
        self.waiting: set[str] = set()
        self.meanwhile: Callable[[], object] = lambda: None

    def status(self, run: Run) -> str | None:
        found = self.standing.get(current_execution(run))
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()  # somebody else comes between the look and what it leads to
        return found

    def start(self, run: Run) -> bool:
        name = current_execution(run)
        if name in self.standing:
            return False
        self.standing[name], self.turns[name] = "RUNNING", max(1, run.turns)
        return True

    def resume(self, token: str, next_kind: Mapping[str, Any] = {}) -> bool:
        alive = token in self.waiting
        self.waiting.discard(token)
        return alive

    def restart(self) -> None:
        """All that runs is lost, and nobody waits any more."""
        self.standing = {name: LOST if status == "RUNNING" else status for name, status in self.standing.items()}
        self.waiting.clear()


def install(monkeypatch: pytest.MonkeyPatch) -> Service:
    """Empties the record, and puts a `Service` in the place of the real one."""
    empty_tables()
    steps = Service()
    monkeypatch.setattr(resuming, "execution_status", steps.status)
    for module in (resuming, delegation):
        monkeypatch.setattr(module, "start_execution", steps.start)
    for module in (delegation, delivering, asking, returning):
        monkeypatch.setattr(module, "resume_execution", steps.resume)
    monkeypatch.setattr(delivering, "_RETRIES_S", 0)
    aide = AgentSpec(name="aide", instructions="Aid.", tools=("search",))
    monkeypatch.setattr(delegation, "find_agent", lambda name: FoundAgent(aide, (a_tool(),), {}))
    return steps


def begun(service: Service, call: Call = QUESTION) -> Run:
    """A run whose first turn asked for one call, with an execution."""
    begin(a_run(ASK, HELPER, created_at=now()), call)
    service.start(require_run(RUN_ID))
    return require_run(RUN_ID)


def asked(service: Service, token: str = "first") -> InteractionId:
    service.waiting.add(token)
    ask(RUN_ID, QUESTION.call_id, token)
    [question] = require_run(RUN_ID).pending
    return question
