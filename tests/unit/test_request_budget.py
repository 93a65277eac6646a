"""How many requests a turn and a call make of the record: each one costs, and is waited for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepagent import returning
from stepagent.delegation import sub_run_of
from stepagent.llm.registry import MODELS_FILE
from stepagent.runs import CallAddress, CallStatus, Decision, RunId
from stepagent.store import modes
from stepagent.store.calls import load_call
from stepagent.store.delegations import note_waiting
from stepagent.think import think
from stepagent.tools.execution import execute
from tests.builders import RUN_ID, a_call, a_run, a_tool
from tests.functions import load
from tests.record_requests import record_requests
from tests.recorded import begin
from tests.scripted_model import Reply, ScriptedModel
from tests.tables import empty_tables, tables_in_memory

MOST_A_TURN = 6
MOST_A_CALL = 4
MOST_AN_ANSWER = 5  # of a called agent, to who called it: who waits, what was spent, the call, and its result

SEARCHES = tuple(("search", {"q": word}) for word in ("one", "two", "three"))


@pytest.fixture(scope="module", autouse=True)
def tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def cold(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None], tmp_path: Path
) -> None:
    """Nothing in the record, and a process that knows nothing of its model yet."""
    row = {"name": "default", "provider_model": "scripted", "base_url": model.base_url}
    (tmp_path / MODELS_FILE).write_text(yaml.safe_dump({"models": [row]}))
    set_environment(CATALOG_DIR=str(tmp_path))
    monkeypatch.setattr(modes, "_known", {})
    empty_tables()


def asked_by_turn(turn: int, run_id: RunId = RUN_ID) -> tuple[Decision, list[str]]:
    with record_requests() as asked:
        decision = think(run_id, turn)
    return decision, asked


def test_turn_keeps_within_its_requests_when_it_asks_for_tools(model: ScriptedModel) -> None:
    begin(a_run())
    model.script(Reply(calls=SEARCHES))
    decision, asked = asked_by_turn(1)
    assert len(decision.calls) == len(SEARCHES)
    assert 0 < len(asked) <= MOST_A_TURN, asked


def test_turn_keeps_within_its_requests_when_it_answers(model: ScriptedModel) -> None:
    begin(a_run(), *(a_call(position) for position in range(3)))
    model.script(Reply(text="Found."))
    decision, asked = asked_by_turn(2)
    assert decision.next == "done"
    assert 0 < len(asked) <= MOST_A_TURN, asked


def test_turn_keeps_within_its_requests_when_it_is_repeated(model: ScriptedModel) -> None:
    begin(a_run())
    model.script(Reply(calls=SEARCHES))
    first, _ = asked_by_turn(1)
    again, asked = asked_by_turn(1)
    assert again == first
    assert 0 < len(asked) <= MOST_A_TURN, asked


@pytest.fixture
def called_agent(monkeypatch: pytest.MonkeyPatch) -> RunId:
    """The run of an agent whose caller waits for it."""
    monkeypatch.setattr(returning, "resume_execution", lambda task_token: None)
    call = a_call(name="helper", kind="agent", arguments={"task": "find it"})
    caller = begin(a_run(a_tool("helper", kind="agent", target="aide")), call)
    here, run_id = CallAddress(run_id=caller.run_id, call_id=call.call_id), sub_run_of(caller.key, call.key)
    note_waiting(run_id, caller.run_id, call.call_id, "token")
    return begin(a_run(run_id=run_id, session_id="sub", parent=here, top=here, depth=1)).run_id


def test_turn_keeps_within_its_requests_when_a_called_agent_asks_for_tools(
    model: ScriptedModel, called_agent: RunId
) -> None:
    model.script(Reply(calls=SEARCHES))
    decision, asked = asked_by_turn(1, called_agent)
    assert decision.next == "act"
    assert 0 < len(asked) <= MOST_A_TURN, asked


def test_turn_keeps_within_its_requests_and_those_of_an_answer_when_a_called_agent_ends(
    model: ScriptedModel, called_agent: RunId
) -> None:
    model.script(Reply(text="Found."))
    decision, asked = asked_by_turn(1, called_agent)
    assert decision.next == "done"
    assert 0 < len(asked) <= MOST_A_TURN + MOST_AN_ANSWER, asked


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("tool_calculator", {"expression": "17*23"}),
        ("tool_current_time", {}),
        ("tool_remember", {"note": "They like tea."}),
        ("tool_recall", {}),
        ("tool_read_result", {"call_id": "call_1_1_0"}),
        ("tool_search_docs", {"query": "tools"}),
    ],
)
def test_call_keeps_within_its_requests(function: str, arguments: dict[str, Any]) -> None:
    call = a_call(name=function.removeprefix("tool_"), arguments=arguments)
    run = begin(a_run(a_tool(call.name)), call)
    with record_requests() as asked:
        load(function, "app").handler({"run_id": run.run_id, "call_id": call.call_id}, None)
    assert load_call(run.key, call.key).call.status is CallStatus.DONE
    assert 0 < len(asked) <= MOST_A_CALL, asked


def test_call_keeps_within_its_requests_when_its_row_says_what_to_do() -> None:
    """As all tools do that share a function: http, mcp and functions of others."""
    run = begin(a_run(), a_call())
    with record_requests() as asked:
        execute(run.run_id, a_call().call_id, lambda invocation: invocation.tool.name)
    assert load_call(run.key, a_call().key).call.status is CallStatus.DONE
    assert 0 < len(asked) <= MOST_A_CALL, asked


def test_call_keeps_within_its_requests_when_it_is_repeated() -> None:
    run = begin(a_run(), a_call())
    execute(run.run_id, a_call().call_id, lambda invocation: "x")
    with record_requests() as asked:
        execute(run.run_id, a_call().call_id, lambda invocation: "y")
    assert 0 < len(asked) <= MOST_A_CALL, asked
