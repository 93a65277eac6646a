"""How many requests a turn and a call make of the record: each one costs, and is waited for."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepagent import asking, delegation, delivering, notifying, returning
from stepagent import think as thinking
from stepagent.agents import AgentSpec, PlanSpec, Strategy
from stepagent.answering import answer, read_interaction
from stepagent.asking import ask
from stepagent.call_failures import record_failure
from stepagent.catalog import FoundAgent
from stepagent.clock import now
from stepagent.delegation import start_workflow, sub_run_of
from stepagent.delivering import close_question
from stepagent.ending import finalize
from stepagent.errors import Expired
from stepagent.llm.registry import MODELS_FILE
from stepagent.rows import Row, Spec, key_of
from stepagent.runs import (
    Call,
    CallAddress,
    CallKey,
    CallStatus,
    ChosenStrategy,
    Decision,
    InteractionId,
    Run,
    RunId,
    RunStatus,
)
from stepagent.store import modes
from stepagent.store.calls import load_call, store_result
from stepagent.store.catalog import write_rows
from stepagent.store.delegations import find_delegation, note_waiting
from stepagent.store.runs import require_run, store_strategy
from stepagent.think import Machine, think
from stepagent.tool_specs import ToolSpec
from stepagent.tools.execution import error_result, execute
from stepagent.usage import Usage
from tests.builders import NOON, OWNER, RUN_ID, a_call, a_run, a_tool
from tests.disturbance import Disturbance, crash
from tests.functions import load
from tests.plans import a_step, written
from tests.record_requests import record_requests
from tests.recorded import begin
from tests.scripted_model import Reply, ScriptedModel
from tests.tables import empty_tables, tables_in_memory

MOST_A_TURN = 6
MOST_A_CALL = 4
# What comes on top, each for its own reason.
MOST_AN_ANSWER = 5  # of a called agent, to who called it: who waits, what was spent, the call, and its result
MOST_A_WAIT = 1  # of a called agent that may have asked people: its calls, which tell for how long
MOST_A_CHOICE = 2  # how to work, once a run: that this process chooses, and what was chosen
MOST_A_START = 2  # of what answers a call: an agent and its tools, or what a plan and its earlier tries came to
MOST_A_QUESTION = 2  # that nobody came to closing: how it stands, and its end
MOST_A_NOTICE = 1  # that a question is open no more, on the bus: the run that its reader follows
MOST_AMONG_OTHERS = 1  # of a question that is not the first: an older one, with which the run waits already

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
    set_environment(CATALOG_DIR=str(tmp_path), EVENT_BUS_NAME="bus")
    monkeypatch.setattr(notifying, "events", Bus)
    monkeypatch.setattr(modes, "_known", {})
    for module in (thinking, delegation):
        monkeypatch.setattr(module, "start_execution", lambda run: True)
    for module in (asking, delegation, delivering, returning):
        monkeypatch.setattr(module, "resume_execution", lambda *_: True)
    empty_tables()


class Bus:
    """Takes every event. Stands for the client of EventBridge."""

    def put_events(self, **_: Any) -> dict[str, Any]:
        return {"Entries": [{"EventId": "1"}]}


def asked_by_turn(turn: int, run_id: RunId = RUN_ID, machine: Machine = "agent") -> tuple[Decision, list[str]]:
    with record_requests() as asked:
        decision = think(run_id, turn, machine)
    return decision, asked


# ---- turns


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


MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:theirs"
HELPER = a_tool("helper", kind="agent", target="aide", parameters={"type": "object"})
ASK = a_tool("ask", kind="interactive", target="", parameters={"type": "object"})
SEND = a_tool("send", approval="always", approval_timeout_s=60)


def called_by_other(*tools: ToolSpec) -> RunId:
    """The run of an agent whose caller waits for it."""
    call = a_call(name="helper", kind="agent", arguments={"task": "find it"})
    caller = begin(a_run(HELPER), call)
    here, run_id = CallAddress(run_id=caller.run_id, call_id=call.call_id), sub_run_of(caller.key, call.key)
    note_waiting(run_id, caller.run_id, call.call_id, "token")
    return begin(a_run(*tools, run_id=run_id, session_id="sub", parent=here, top=here, depth=1)).run_id


@pytest.fixture
def called_agent() -> RunId:
    return called_by_other()


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


def test_turn_keeps_within_its_requests_and_those_of_a_wait_when_a_called_agent_ends_that_may_ask_people(
    model: ScriptedModel,
) -> None:
    run_id = called_by_other(SEND)
    model.script(Reply(text="Found."))
    decision, asked = asked_by_turn(1, run_id)
    assert decision.next == "done"
    assert 0 < len(asked) <= MOST_A_TURN + MOST_AN_ANSWER + MOST_A_WAIT, asked


# ---- plans


def a_working_run(strategy: Strategy) -> Run:
    agent = a_run().agent.model_copy(update={"strategy": strategy, "plan": PlanSpec(review="on_failure")})
    return begin(a_run(agent=agent, created_at=now()))


@pytest.mark.parametrize(
    ("chosen", "reply", "reached", "most"),
    [
        ("react", Reply(calls=SEARCHES), "act", MOST_A_TURN + MOST_A_CHOICE),
        ("react", Reply(text="Found."), "done", MOST_A_TURN + MOST_A_CHOICE),
        ("plan", Reply(), "done", MOST_A_TURN),  # another execution has its first turn
    ],
)
def test_first_turn_keeps_within_its_requests_and_those_of_a_choice_when_the_model_chooses_how_to_work(
    model: ScriptedModel, chosen: str, reply: Reply, reached: str, most: int
) -> None:
    a_working_run("auto")
    model.script(Reply(text=json.dumps({"strategy": chosen, "why": "parts"})), reply)
    decision, asked = asked_by_turn(1)
    assert (decision.next, require_run(RUN_ID).strategy) == (reached, chosen)
    assert 0 < len(asked) <= most, asked


def test_turns_of_a_plan_keep_within_their_requests_from_the_first_to_the_last(model: ScriptedModel) -> None:
    a_working_run("plan")
    model.script(Reply(text=written([a_step("a")])), Reply(text="Found."))
    for turn, reached in enumerate(["act", "answer", "done"], 1):
        decision, asked = asked_by_turn(turn, machine="plan")
        assert decision.next == reached
        assert 0 < len(asked) <= MOST_A_TURN, asked
        end_steps(decision, failed=False)


def end_steps(decision: Decision, *, failed: bool) -> None:
    for call in decision.calls:
        result = error_result("x").model_copy(update={"is_error": failed})
        store_result(a_run().key, CallKey.parse(call.call_id), result)


# ---- questions that a turn finds open


@pytest.mark.parametrize("answered", [False, True])
def test_turn_keeps_within_its_requests_and_those_of_a_question_when_nobody_came_to_closing_it(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    begin(a_run(ASK, created_at=now()), an_asking_call())
    ask(RUN_ID, an_asking_call().call_id, "token")
    if answered:
        with monkeypatch.context() as patch:
            patch.setattr(delivering, "_bring", lambda standing: True)  # and then the process died
            answer(require_run(RUN_ID).pending[0], OWNER, "blue")
    model.script(Reply(text="Found."))
    decision, asked = asked_by_turn(2)
    assert (decision.next, require_run(RUN_ID).pending) == ("done", ())
    assert 0 < len(asked) <= MOST_A_TURN + MOST_A_QUESTION + (0 if answered else MOST_A_NOTICE), asked


# ---- calls


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


# ---- calls that wait for others


def asked_by_start(call_id: str) -> list[str]:
    with record_requests() as asked:
        start_workflow(RUN_ID, call_id, "token")
    return asked


def test_step_begins_within_the_requests_of_a_call_and_those_of_its_start_in_each_try(model: ScriptedModel) -> None:
    a_working_run("plan")
    model.script(Reply(text=written([a_step("a")])))
    for turn in (1, 2):
        decision = think(RUN_ID, turn, "plan")
        asked = asked_by_start(decision.calls[0].call_id)
        assert require_run(sub_run_of(a_run().key, CallKey(1, turn, 0))).agent.strategy == "react"
        assert 0 < len(asked) <= MOST_A_CALL + MOST_A_START, asked
        end_steps(decision, failed=True)


def test_called_agent_begins_within_the_requests_of_a_call_and_those_of_its_start() -> None:
    specs: list[Spec] = [AgentSpec(name="aide", instructions="Aid.", tools=("search",)), a_tool()]
    write_rows([Row(key_of(spec), 1, spec, "live", "ann", NOON) for spec in specs], 0)
    call = a_call(name="helper", kind="agent", arguments={"task": "find it"})
    begin(a_run(HELPER), call)
    asked = asked_by_start(call.call_id)
    assert require_run(sub_run_of(a_run().key, call.key)).agent.name == "aide"
    assert 0 < len(asked) <= MOST_A_CALL + MOST_A_START, asked


def test_workflow_begins_within_the_requests_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation, "start_workflow_execution", lambda *_: "")
    call = a_call(name="flow", kind="workflow")
    begin(a_run(a_tool("flow", kind="workflow", target=MACHINE)), call)
    asked = asked_by_start(call.call_id)
    assert 0 < len(asked) <= MOST_A_CALL, asked


def an_asking_call(position: int = 0) -> Call:
    return a_call(position, name="ask", kind="interactive", timeout_s=60, arguments={"question": "Which?"})


@pytest.mark.parametrize(
    "call", [an_asking_call(), a_call(name="send", needs_approval=True)], ids=["question", "approval"]
)
def test_question_is_asked_within_the_requests_of_a_call(call: Call) -> None:
    begin(a_run(ASK, SEND, created_at=now()), call)
    with record_requests() as asked:
        ask(RUN_ID, call.call_id, "token")
    assert len(require_run(RUN_ID).pending) == 1
    assert 0 < len(asked) <= MOST_A_CALL, asked


def test_question_is_asked_within_the_requests_of_a_call_and_one_more_when_its_run_waits_with_many() -> None:
    calls = [an_asking_call(position) for position in range(5)]
    begin(a_run(ASK, created_at=now()), *calls)
    for call in calls:
        with record_requests() as asked:
            ask(RUN_ID, call.call_id, "token")
        assert 0 < len(asked) <= MOST_A_CALL + MOST_AMONG_OTHERS, asked
    assert len(require_run(RUN_ID).pending) == len(calls)


def test_failure_of_a_call_keeps_within_its_requests() -> None:
    run = begin(a_run(), a_call())
    with record_requests() as asked:
        record_failure(RUN_ID, a_call().call_id, "Lambda.Unknown")
    assert load_call(run.key, a_call().key).call.status is CallStatus.DONE
    assert 0 < len(asked) <= MOST_A_CALL, asked


def test_question_expires_within_the_requests_of_a_call_and_that_of_its_notice() -> None:
    run = begin(a_run(ASK, created_at=now()), an_asking_call())
    ask(RUN_ID, an_asking_call().call_id, "token")
    with record_requests() as asked:
        record_failure(RUN_ID, an_asking_call().call_id, "States.Timeout")
    assert load_call(run.key, an_asking_call().key).call.status is CallStatus.DONE
    assert 0 < len(asked) <= MOST_A_CALL + MOST_A_NOTICE, asked


# ---- what a request that is saved must not cost


@pytest.fixture
def disturbance(tables: None) -> Disturbance:
    return Disturbance()


def test_no_called_agent_asks_its_model_when_its_caller_fails_while_it_begins(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, disturbance: Disturbance
) -> None:
    monkeypatch.setattr(delegation, "find_agent", lambda name: FoundAgent(a_run().agent, (a_tool(),), {}))
    call = a_call(name="helper", kind="agent", arguments={"task": "find it"})
    run_id = sub_run_of(a_run().key, call.key)

    def prepare() -> None:
        empty_tables()
        begin(a_run(HELPER), call)

    def fail() -> None:
        finalize(RUN_ID, "ABORTED")

    for _ in disturbance.everywhere(fail, prepare, lambda: start_workflow(RUN_ID, call.call_id, "token")):
        fail()  # the last time nothing came in between
        assert (think(run_id, 1).next, require_run(run_id).status) == ("fail", RunStatus.CANCELLED)
    assert model.requests == []


@pytest.mark.parametrize("strategy", ["react", "plan"])
@pytest.mark.parametrize("usage", [Usage(input_tokens=7, cost_usd=Decimal(1)), Usage(complete=False, cost_usd=None)])
def test_run_is_known_as_the_record_has_it_when_a_way_to_work_was_chosen(strategy: str, usage: Usage) -> None:
    run = a_working_run("auto")
    chosen = ChosenStrategy.model_validate({"strategy": strategy, "why": "parts"})
    assert store_strategy(run, chosen, usage) == require_run(RUN_ID)
    assert store_strategy(run, ChosenStrategy(strategy="react"), Usage()) == require_run(RUN_ID)  # the first one stays


def test_call_waits_with_each_token_when_its_state_is_entered_again(
    monkeypatch: pytest.MonkeyPatch, disturbance: Disturbance
) -> None:
    monkeypatch.setattr(delegation, "find_agent", lambda name: FoundAgent(a_run().agent, (a_tool(),), {}))
    monkeypatch.setattr(delegation, "ensure_execution", lambda run: run)
    call = a_call(name="helper", kind="agent", arguments={"task": "find it"})
    run_id = sub_run_of(a_run().key, call.key)

    def prepare() -> None:
        empty_tables()
        tokens[:] = ["first", "second"]
        begin(a_run(HELPER), call)

    tokens: list[str] = []
    for _ in disturbance.everywhere(crash, prepare, lambda: start_workflow(RUN_ID, call.call_id, tokens.pop(0))):
        waiting = find_delegation(run_id)
        assert waiting
        assert ("second" in waiting.task_tokens) == (not tokens)  # it is the one that the state waits with now


def test_question_is_either_answered_or_closed_when_both_come_together(
    monkeypatch: pytest.MonkeyPatch, disturbance: Disturbance
) -> None:
    monkeypatch.setattr(delivering, "_bring", lambda standing: True)  # and then whoever answered dies

    def question() -> InteractionId:
        asked = load_call(a_run().key, an_asking_call().key).question
        assert asked
        return asked

    def prepare() -> None:
        empty_tables()
        begin(a_run(ASK, created_at=now()), an_asking_call())
        ask(RUN_ID, an_asking_call().call_id, "token")

    def close() -> None:
        closed.append(close_question(question()))

    def give_an_answer() -> None:
        with suppress(Expired):
            answer(question(), OWNER, "blue")

    closed: list[bool] = []
    for _ in disturbance.everywhere(give_an_answer, prepare, close):
        status = read_interaction(question(), OWNER).status
        assert (status, require_run(RUN_ID).pending) == ("cancelled" if closed[-1] else "answered", ())
    assert set(closed) == {True, False}
