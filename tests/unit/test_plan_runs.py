"""Think around plans, over the record's own conditions: whatever dies, each step begins once and the choice is one."""

import json
from collections.abc import Callable, Iterator, Sequence

import pytest

from stepagent import delegation, delivering, returning, think
from stepagent.agents import PlanSpec, Strategy
from stepagent.api.plans import with_live_plan
from stepagent.clock import now
from stepagent.delegation import start_workflow, sub_run_of
from stepagent.errors import ModelBusy, ModelKeyRefused
from stepagent.executions import current_execution
from stepagent.llm.ask import Wishes
from stepagent.llm.reply import ModelRequest, Reply
from stepagent.messages import UserMessage
from stepagent.runs import Call, CallKey, Outcome, Run, RunStatus, StopReason
from stepagent.store.calls import load_call, store_result
from stepagent.store.conversation import load_conversation
from stepagent.store.journal import read_events
from stepagent.store.runs import close_run, require_run
from stepagent.tools.execution import error_result
from tests.builders import RUN_ID, a_run, said
from tests.disturbance import Disturbance, crash
from tests.plans import DIAMOND, written
from tests.recorded import begin
from tests.tables import empty_tables, tables_in_memory


class World:
    """The model and Step Functions. Stands for `llm.ask` and `stepagent.executions`."""

    def __init__(self) -> None:
        self.replies: Callable[[ModelRequest], Reply] = lambda request: said("Done.")
        self.requests: list[ModelRequest] = []
        self.started: list[str] = []
        self.resumed: list[str] = []

    def ask(self, models: object, request: ModelRequest, *_: object) -> Reply:
        self.requests.append(request)
        return self.replies(request)

    def start(self, run: Run) -> bool:
        name = f"{run.strategy} {current_execution(run)}"
        new = name not in self.started
        self.started.append(name)
        return new

    def resume(self, token: str, *_: object) -> bool:
        self.resumed.append(token)
        return True


@pytest.fixture(scope="module")
def disturbance() -> Iterator[Disturbance]:
    with tables_in_memory():
        yield Disturbance()


@pytest.fixture
def world(disturbance: Disturbance, monkeypatch: pytest.MonkeyPatch) -> World:
    empty_tables()
    made = World()
    monkeypatch.setattr(think, "ask", made.ask)
    monkeypatch.setattr(think, "_models", lambda run: [])
    for module in (think, delegation):
        monkeypatch.setattr(module, "start_execution", made.start)
    monkeypatch.setattr(delegation, "ensure_execution", lambda run: run)
    for module in (delegation, delivering, returning):
        monkeypatch.setattr(module, "resume_execution", made.resume)
    return made


def a_planning_run(strategy: Strategy = "plan", **spec: object) -> Run:
    run = a_run(created_at=now())
    plan = PlanSpec.model_validate({"review": "on_failure", **spec})
    agent = run.agent.model_copy(update={"strategy": strategy, "plan": plan})
    return begin(run.model_copy(update={"agent": agent}))


def plan_of(request: ModelRequest) -> Reply:
    return said(written(DIAMOND) if request.closing.startswith("Make") else "Done.")


def calls() -> list[Call]:
    return [entry for entry in load_conversation(require_run(RUN_ID).key) if isinstance(entry, Call)]


def events(*types: str) -> list[str]:
    return [event.type for event in read_events(RUN_ID, 0) if event.type in types]


def finish_steps(*, failed: bool = False) -> None:
    for call in calls():
        store_result(require_run(RUN_ID).key, call.key, error_result("x").model_copy(update={"is_error": failed}))


# ---- turns


def test_turn_of_a_plan_is_decided_once_wherever_its_process_dies(world: World, disturbance: Disturbance) -> None:
    world.replies = plan_of

    def prepare() -> None:
        empty_tables()
        a_planning_run()
        think.think(RUN_ID, 1, "plan")
        finish_steps()

    for _ in disturbance.everywhere(crash, prepare, lambda: think.think(RUN_ID, 2, "plan")):
        plan = require_run(RUN_ID).plan
        assert plan
        assert [(step.status, step.attempt) for step in plan.steps[:3]] == [
            ("done", 1),
            ("in_progress", 1),
            ("in_progress", 1),
        ]
        assert [call.arguments["step"] for call in calls()] == ["a", "b", "c"]


def test_step_is_begun_once_wherever_the_process_that_begins_it_dies(world: World, disturbance: Disturbance) -> None:
    world.replies = plan_of
    call_id = CallKey(1, 1, 0).call_id
    child = sub_run_of(a_run().key, CallKey(1, 1, 0))

    def prepare() -> None:
        empty_tables()
        world.started.clear()
        a_planning_run()
        think.think(RUN_ID, 1, "plan")

    for _ in disturbance.everywhere(crash, prepare, lambda: start_workflow(RUN_ID, call_id, "token")):
        run = require_run(child)
        assert (run.strategy, run.parent and run.parent.call_id, run.tools) == ("react", call_id, a_run().tools)
        assert set(world.started) == {f"react {child}"}
        assert len(events("step.started")) <= 1


def test_step_belongs_to_the_caller_and_spends_what_the_plan_has_left(world: World) -> None:
    world.replies = plan_of
    a_planning_run()
    think.think(RUN_ID, 1, "plan")
    start_workflow(RUN_ID, CallKey(1, 1, 0).call_id, "token")
    child = require_run(sub_run_of(a_run().key, CallKey(1, 1, 0)))
    think.think(child.run_id, 1)
    run, call = require_run(RUN_ID), load_call(a_run().key, CallKey(1, 1, 0)).call
    assert call.result
    assert (call.result.text, call.result.is_error, world.resumed) == ("Done.", False, ["token"])
    assert run.usage.input_tokens == 20  # of the plan, and of the step
    assert events("step.started", "step.completed", "tool.started", "tool.completed") == [
        "step.started",
        "step.completed",
    ]


def test_events_tell_of_the_plan_and_of_the_steps_that_a_follower_waits_for(world: World) -> None:
    world.replies = plan_of
    a_planning_run()
    think.think(RUN_ID, 1, "plan")
    [completed] = [event.data for event in read_events(RUN_ID, 0) if event.type == "message.completed"]
    [created] = [event.data for event in read_events(RUN_ID, 0) if event.type == "plan.created"]
    assert completed == {"turn": 1, "calls": [], "steps": [{"id": "a", "call_id": "call_1_1_0"}]}
    assert created["plan"]["steps"][0]["status"] == "in_progress"


def test_plan_is_shown_as_its_steps_stand_between_two_turns(world: World) -> None:
    world.replies = plan_of
    a_planning_run()
    think.think(RUN_ID, 1, "plan")
    finish_steps()
    plan = with_live_plan(require_run(RUN_ID)).plan
    assert plan
    assert [step.status for step in plan.steps] == ["done", "pending", "pending", "pending", "pending"]


def test_steps_that_an_ended_run_left_are_shown_as_skipped(world: World) -> None:
    world.replies = plan_of
    run = a_planning_run()
    think.think(RUN_ID, 1, "plan")
    close_run(run, Outcome(RunStatus.CANCELLED, StopReason.CANCELLED))
    plan = with_live_plan(require_run(RUN_ID)).plan
    assert plan
    assert {step.status for step in plan.steps} == {"skipped"}


# ---- the choice


def choose(strategy: str) -> Callable[[ModelRequest], Reply]:
    return lambda request: (
        said(json.dumps({"strategy": strategy, "why": "parts"})) if "Decide" in request.closing else plan_of(request)
    )


def test_run_that_chose_a_plan_leaves_the_loop_for_one_execution_wherever_its_process_dies(
    world: World, disturbance: Disturbance
) -> None:
    world.replies = choose("plan")

    def prepare() -> None:
        empty_tables()
        world.started.clear()
        a_planning_run("auto")

    for _ in disturbance.everywhere(crash, prepare, lambda: think.think(RUN_ID, 1)):
        run = require_run(RUN_ID)
        assert (run.strategy, run.executions, run.plan, run.turns) == ("plan", 2, None, 0)
        assert set(world.started) == {f"plan {RUN_ID}-2"}


def test_execution_that_has_taken_over_keeps_its_turn_when_the_one_before_is_entered_again(world: World) -> None:
    world.replies = choose("plan")
    a_planning_run("auto")
    think.think(RUN_ID, 1)
    first = think.think(RUN_ID, 1, "plan")
    again = think.think(RUN_ID, 1)
    assert (first.next, again.next, again.reason) == ("act", "done", "plan")


def test_run_that_chose_to_work_step_by_step_answers_in_the_same_turn(world: World) -> None:
    world.replies = choose("react")
    a_planning_run("auto")
    assert think.think(RUN_ID, 1).next == "done"
    run = require_run(RUN_ID)
    assert (run.strategy, run.answer, run.usage.input_tokens, run.chosen and run.chosen.why) == (
        "react",
        "Done.",
        20,
        "parts",
    )
    assert world.started == []


@pytest.mark.parametrize("text", ["plan!", '{"strategy": "other"}', "", '{"why": "x"}'])
def test_run_works_step_by_step_when_its_choice_cannot_be_read(world: World, text: str) -> None:
    world.replies = lambda request: said(text if "Decide" in request.closing else "Done.")
    a_planning_run("auto")
    think.think(RUN_ID, 1)
    chosen = require_run(RUN_ID).chosen
    assert chosen
    assert (chosen.strategy, chosen.why) == ("react", "The model did not choose.")


def raising(*errors: Exception) -> Callable[[ModelRequest], Reply]:
    left = list(errors)

    def reply(request: ModelRequest) -> Reply:
        if left:
            raise left.pop(0)
        return choose("react")(request)

    return reply


def test_choice_waits_when_the_provider_is_busy(world: World) -> None:
    world.replies = raising(ModelBusy("busy", 5))
    a_planning_run("auto")
    decision = think.think(RUN_ID, 1)
    assert (decision.next, decision.turn, decision.wait_s) == ("wait", 1, 5)
    assert think.think(RUN_ID, 1).next == "done"


def test_run_fails_with_the_reason_when_its_model_cannot_be_asked_to_choose(world: World) -> None:
    world.replies = raising(ModelKeyRefused("no key"))
    a_planning_run("auto")
    assert [think.think(RUN_ID, 1).reason for _ in range(2)] == ["model_key_refused"] * 2
    failure = require_run(RUN_ID).failure
    assert failure
    assert (failure.message, len(world.requests)) == ("no key", 1)


def test_choice_is_brief(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def ask(models: Sequence[object], request: ModelRequest, wishes: Wishes, *_: object) -> Reply:
        seen.append((wishes.fields.get("max_tokens"), len(request.tools)))
        return choose("react")(request)

    monkeypatch.setattr(think, "ask", ask)
    a_planning_run("auto")
    think.think(RUN_ID, 1)
    assert seen == [(1_000, 0), (None, 1)]


def test_no_plan_costs_a_run_that_works_step_by_step_nothing(world: World) -> None:
    a_planning_run("react")
    think.think(RUN_ID, 1)
    assert (len(world.requests), require_run(RUN_ID).chosen, require_run(RUN_ID).plan) == (1, None, None)


# ---- a step that is tried again


def test_second_try_of_a_step_is_told_what_the_first_one_called(world: World) -> None:
    asked = said("", ("search", json.dumps({"q": "an order"})))
    world.replies = lambda request: plan_of(request) if request.closing else asked
    a_planning_run()
    think.think(RUN_ID, 1, "plan")
    start_workflow(RUN_ID, calls()[0].call_id, "token")
    first = require_run(sub_run_of(a_run().key, calls()[0].key))
    think.think(first.run_id, 1)
    store_result(first.key, CallKey(1, 1, 0), error_result("ordered").model_copy(update={"is_error": False}))
    finish_steps(failed=True)
    think.think(RUN_ID, 2, "plan")
    start_workflow(RUN_ID, calls()[1].call_id, "token")
    second = require_run(sub_run_of(a_run().key, calls()[1].key))
    (told,) = [entry.text for entry in load_conversation(second.key) if isinstance(entry, UserMessage)]
    assert "An earlier try at this step failed" in told
    assert 'search {"q": "an order"}:' in told
    assert "ordered" in told
