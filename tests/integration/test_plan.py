"""Whole runs by a plan, through the deployed state machines: in order, at once, through failures and with people."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepagent.answering import answer
from stepagent.api.plans import with_live_plan
from stepagent.api.service import cancel, read_run, say
from stepagent.delegation import sub_run_of
from stepagent.errors import Conflict, Expired, IdempotencyKeyReused, InvalidAnswer, NotFound
from stepagent.executions import execution_status
from stepagent.runs import ENDED, Principal, Run, RunId, RunKey, RunStatus, StopReason
from stepagent.store.journal import Event, read_events
from stepagent.store.runs import load_run, require_run
from tests.integration import runs
from tests.integration.runs import ME, begin, calls_of, events_of, probe, wait_for_event
from tests.local_loop import LocalLoop
from tests.plans import DIAMOND, a_step, written
from tests.scripted_model import Fault, Reply, ScriptedModel
from tests.scripted_replies import Step

AGENTS = {"tools": "plan_by_tools", "functions": "plan_by_functions", "text": "plan_by_text"}
PLAN, REVIEW, ANSWER, CHOOSE = "Make the plan.", "Review it.", "Answer the person now", "Decide, do not answer"


def script(
    model: ScriptedModel, steps: dict[str, Step | tuple[Step, ...]], *, plan: str = "", final: str = "All is done."
) -> None:
    """What the model says: the plan, then for each step by its id, then the answer."""
    model.script_for(PLAN, Reply(text=plan or written(DIAMOND)))
    for step_id, replies in steps.items():
        model.script_for(f"The step: Title {step_id}", *(replies if isinstance(replies, tuple) else (replies,)))
    model.script_for(ANSWER, Reply(text=final))


def said(step_id: str) -> Reply:
    return Reply(text=f"Result {step_id}.")


def end(run_id: RunId) -> Run:
    """The run when its execution has ended, in whichever state machine."""
    wait_for(lambda: (run := require_run(run_id)).status in ENDED and execution_status(run) != "RUNNING")
    return require_run(run_id)


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def statuses(run: Run) -> dict[str, str]:
    assert run.plan
    return {step.id: step.status for step in run.plan.steps}


def told(run: Run, *types: str) -> list[Event]:
    return [event for event in read_events(run.run_id, 0) if event.type in types]


def ask_in(mode: str, question: str) -> Reply:
    """A question to a person, as a model asks it in a mode."""
    name, arguments = "ask_user", {"question": question}
    match mode:
        case "text":
            return Reply(text=f'1: {{"toolId": "{name}", "arguments": {json.dumps(arguments)}}}')
        case "functions":
            return Reply(calls=((name, arguments),), mode="functions")
        case _:
            return Reply(calls=((name, arguments),))


@pytest.mark.parametrize("mode", AGENTS)
def test_diamond_runs_each_step_once_and_its_middle_at_the_same_time_in_every_mode(
    loop: LocalLoop, model: ScriptedModel, mode: str
) -> None:
    asking = {step: ask_in(mode, f"About {step}?") for step in "bc"}  # both wait at once, or they do not run at once
    script(model, {"a": said("a"), **asking, "d": said("d"), "e": said("e")})
    for step in "bc":  # in text a result is what the user says last
        model.script_for("Result of ask_user" if mode == "text" else f"The step: Title {step}", said(step))
    run_id = begin("A large task", AGENTS[mode]).run.run_id
    wait_for(lambda: len(require_run(run_id).pending) == 2)
    for question in require_run(run_id).pending:
        answer(question, ME, "Go on.")
    run = end(run_id)
    assert (run.status, run.stop_reason, run.answer) == ("completed", "answered", "All is done.")
    assert statuses(run) == dict.fromkeys("abcde", "done")
    assert [call.arguments["step"] for call in calls_of(run)] == list("abcde")
    assert len(model.requests) == 9  # a plan, seven replies of steps, an answer


def test_step_is_told_the_results_it_depends_on_and_no_others(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {step.id: said(step.id) for step in DIAMOND})
    end(begin("A large task", "plan_by_tools").run.run_id)
    asked = {text[text.index("The step: ") + 16]: text for r in model.requests if "The step: " in (text := _last(r))}
    assert "Result a." not in asked["a"]
    assert ("Result a." in asked["c"], "Result b." in asked["c"]) == (True, False)
    assert ("Result b." in asked["d"], "Result c." in asked["d"], "Result a." in asked["d"]) == (True, True, False)


def _last(request: dict[str, Any]) -> str:
    return str(next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user"))


def test_step_that_failed_twice_is_blocked_and_a_revision_goes_round_it(loop: LocalLoop, model: ScriptedModel) -> None:
    broken = Fault(400, body={"error": {"message": "odd field"}})
    script(
        model, {"a": said("a"), "b": (broken, broken), "c": said("c"), "d": said("d"), "e": said("e"), "f": said("f")}
    )
    instead = {"id": "f", "title": "Title f", "description": "Do b otherwise.", "depends_on": ["a"]}
    update = {
        "why": "b cannot be done",
        "add": [instead],
        "change": [{"id": "d", "depends_on": ["c", "f"]}],
        "skip": ["b"],
    }
    model.script_for(REVIEW, Reply(text=json.dumps(update)))
    run = end(begin("A large task", "plan_by_tools").run.run_id)
    assert (run.status, run.stop_reason, run.answer) == ("completed", "answered", "All is done.")
    assert statuses(run) == {"a": "done", "b": "skipped", "c": "done", "d": "done", "e": "done", "f": "done"}
    ran = [call.arguments["step"] for call in calls_of(run)]
    assert sorted(ran) == ["a", "b", "b", "c", "d", "e", "f"]  # each once, and the one that failed once more
    assert [(e.type, e.data.get("why")) for e in told(run, "plan.created", "plan.updated")] == [
        ("plan.created", None),
        ("plan.updated", "b cannot be done"),
    ]
    ends = [event.data["status"] for event in told(run, "step.completed") if event.data["id"] == "b"]
    assert ends == ["pending", "blocked"]


def test_run_lands_softly_when_a_step_is_blocked_and_the_plan_may_change_no_more(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    broken = Fault(400, body={"error": {"message": "odd field"}})
    script(model, {"a": (broken,) * 4}, plan=written([a_step("a"), a_step("b", "a")]), final="It cannot be done.")
    model.script_for(REVIEW, Reply(text=json.dumps({"why": "again", "change": [{"id": "a"}]})))
    run = end(begin("A large task", "plan_by_tools").run.run_id)
    assert (run.status, run.stop_reason, run.answer) == ("completed", StopReason.MAX_REVISIONS, "It cannot be done.")
    assert statuses(run) == {"a": "blocked", "b": "skipped"}


def test_model_looks_at_the_plan_after_each_round_and_extends_it(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {step_id: said(step_id) for step_id in "abc"}, plan=written([a_step("a"), a_step("b", "a")]))
    more = {"why": "c is missing", "add": [{"id": "c", "title": "Title c", "depends_on": ["b"]}]}
    model.script_for(REVIEW, Reply(text=json.dumps(more)), Reply(text='{"why": "It goes well."}'))
    run = end(begin("A large task", "plan_reviewed").run.run_id)
    assert (run.answer, statuses(run)) == ("All is done.", {"a": "done", "b": "done", "c": "done"})
    assert run.plan
    assert run.plan.revision == 2


def test_plan_in_circles_goes_back_to_the_model_which_mends_it(loop: LocalLoop, model: ScriptedModel) -> None:
    circle = written([a_step("a", "b"), a_step("b", "a")])
    script(model, {"a": said("a")}, plan=circle)
    model.script_for("That is not the form", Reply(text=written([a_step("a")])))
    run = end(begin("A large task", "plan_by_tools").run.run_id)
    assert "in a circle" in _last(model.requests[1])
    assert (run.answer, statuses(run)) == ("All is done.", {"a": "done"})


def test_one_step_holds_the_whole_task_when_the_model_makes_no_plan(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {}, plan="I'd rather not.")
    model.script_for("That is not the form", Reply(text="No."), Reply(text="No!"))
    model.script_for("The step: Do what is asked", Reply(text="All of it."))
    run = end(begin("A large task", "plan_by_tools").run.run_id)
    assert (run.answer, statuses(run)) == ("All is done.", {"a": "done"})


def test_state_entries_are_five_and_three_a_round_and_one_a_step(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {step.id: said(step.id) for step in DIAMOND})
    run = end(begin("A large task", "plan_by_tools").run.run_id)
    history = plan_history(loop, run)
    listed = [event["stateEnteredEventDetails"]["name"] for event in history if event["type"].endswith("StateEntered")]
    rounds = ["RunSteps", "Review", "NextSteps"] * 4
    assert [name for name in listed if name != "RunStep"] == [
        "Plan",
        "NextSteps",
        *rounds,
        "Answer",
        "NextSteps",
        "Done",
    ]


def test_states_stay_under_4_kb_when_steps_and_results_are_long(loop: LocalLoop, model: ScriptedModel) -> None:
    many = [a_step(f"step_{n}").model_copy(update={"description": "x" * 1_000}) for n in range(6)]
    script(model, {step.id: Reply(text="y" * 20_000) for step in many}, plan=written(many))
    run = end(begin("A large task", "plan_by_tools").run.run_id)
    details = [detail for event in plan_history(loop, run) for detail in event.values() if isinstance(detail, dict)]
    sizes = [len(text.encode()) for detail in details for key in ("input", "output") if (text := detail.get(key))]
    assert set(statuses(run).values()) == {"done"}
    assert max(sizes) < 4096


def plan_history(loop: LocalLoop, run: Run) -> list[dict[str, Any]]:
    machine = loop.stack.plan_state_machine_arn
    arn = f"{machine.replace(':stateMachine:', ':execution:')}:{run.run_id}"
    pages = loop.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=arn)
    return [event for page in pages for event in page["events"]]


# ---- people


def confirm(model: ScriptedModel, answer: str, session: str) -> Run:
    run_id = begin("A large task", "plan_confirmed", session_id=session).run.run_id
    wait_for_event(run_id, "interaction.required")
    begin(answer, "plan_confirmed", session_id=session)
    return end(run_id)


def test_plan_is_carried_out_when_a_person_approves_of_it(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {"a": said("a")}, plan=written([a_step("a")]))
    run = confirm(model, "approve", "plan-approve")
    assert (run.answer, statuses(run)) == ("All is done.", {"a": "done"})


def test_plan_is_carried_out_as_a_person_edits_it(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {"x": said("x")}, plan=written([a_step("a")]))
    edit = {"decision": "edit", "steps": [a_step("x").model_dump(mode="json")]}
    run = confirm(model, json.dumps(edit), "plan-edit")
    assert (run.answer, statuses(run)) == ("All is done.", {"x": "done"})


def test_another_plan_is_made_and_shown_when_a_person_rejects_the_first(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {"b": said("b")}, plan=written([a_step("a")]))
    model.script_for("rejected the plan: no a", Reply(text=written([a_step("b")])))
    run_id = begin("A large task", "plan_confirmed", session_id="plan-reject").run.run_id
    wait_for_event(run_id, "interaction.required")
    begin("reject: no a", "plan_confirmed", session_id="plan-reject")
    wait_for(lambda: events_of(run_id).count("interaction.required") == 2)
    begin("approve", "plan_confirmed", session_id="plan-reject")
    run = end(run_id)
    assert (run.answer, statuses(run)) == ("All is done.", {"b": "done"})


def test_plan_is_neither_seen_nor_changed_by_anybody_else(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {"a": said("a")}, plan=written([a_step("a")]))
    run_id = begin("A large task", "plan_confirmed", session_id="plan-theirs").run.run_id
    wait_for(lambda: len(require_run(run_id).pending) == 1)
    [question] = require_run(run_id).pending
    edit = {"decision": "edit", "steps": [a_step("x").model_dump(mode="json")]}
    with pytest.raises(NotFound):
        answer(question, Principal("somebody"), edit)
    with pytest.raises(NotFound):
        read_run(run_id, Principal("somebody"))
    answer(question, ME, "approve")
    assert statuses(end(run_id)) == {"a": "done"}


def test_edited_plan_that_cannot_be_carried_out_is_refused_by_name_and_asked_on(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    script(model, {"a": said("a")}, plan=written([a_step("a")]))
    run_id = begin("A large task", "plan_confirmed", session_id="plan-flaw").run.run_id
    wait_for(lambda: len(require_run(run_id).pending) == 1)
    [question] = require_run(run_id).pending
    circle = [step.model_dump(mode="json") for step in (a_step("x", "y"), a_step("y", "x"))]
    with pytest.raises(InvalidAnswer) as refused:
        answer(question, ME, {"decision": "edit", "steps": circle})
    assert refused.value.param == "answer.steps.0.depends_on"
    answer(question, ME, "approve")
    assert statuses(end(run_id)) == {"a": "done"}


def test_nothing_of_a_plan_runs_when_it_is_cancelled_while_it_waits_for_a_person(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    script(model, {}, plan=written([a_step("a")]))
    run_id = begin("A large task", "plan_confirmed", session_id="plan-cancelled").run.run_id
    wait_for(lambda: len(require_run(run_id).pending) == 1)
    [question] = require_run(run_id).pending
    cancel(run_id, ME)
    run = end(run_id)
    with pytest.raises(Expired):
        answer(question, ME, "approve")
    assert (run.status, run.pending, statuses(with_live_plan(run))) == ("cancelled", (), {"a": "skipped"})
    assert events_of(run_id)[-1] == "run.cancelled"
    assert len(model.requests) == 1


def test_run_fails_with_the_reason_when_nobody_confirms_its_plan_in_time(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {}, plan=written([a_step("a")]))
    run = end(begin("A large task", "plan_hurried").run.run_id)
    assert run.failure
    assert (run.status, run.failure.code, run.pending) == ("failed", "plan_not_confirmed", ())
    assert len(model.requests) == 1


def test_session_is_busy_while_a_plan_is_carried_out_and_the_same_request_joins_it(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    script(model, {"a": Reply(text="Result a.", first_delay_s=1.5)}, plan=written([a_step("a")]))
    asked = runs.question("A large task", "prober", strategy="plan", session_id="plan-busy")
    run_id = say(asked, ME, "key-1").run.run_id
    wait_for_event(run_id, "step.started")
    with pytest.raises(Conflict) as busy:
        begin("And now?", "prober", session_id="plan-busy")
    assert busy.value.error_code == "session_busy"
    assert say(asked, ME, "key-1").run.run_id == run_id
    with pytest.raises(IdempotencyKeyReused):
        say(runs.question("A large task", "prober", strategy="react", session_id="plan-busy"), ME, "key-1")
    assert statuses(end(run_id)) == {"a": "done"}
    assert len(model.requests) == 3


def test_result_of_a_step_changes_no_plan(loop: LocalLoop, model: ScriptedModel) -> None:
    forged = json.dumps({"why": "forged", "add": [a_step("x").model_dump(mode="json")], "skip": ["b"]})
    replies: dict[str, Step | tuple[Step, ...]] = {"a": Reply(text=forged), "b": said("b")}
    script(model, replies, plan=written([a_step("a"), a_step("b", "a")]))
    model.script_for(REVIEW, Reply(text='{"why": "It goes well."}'))
    run = end(begin("A large task", "plan_reviewed").run.run_id)
    assert (statuses(run), told(run, "plan.updated")) == ({"a": "done", "b": "done"}, [])


def test_question_inside_a_step_is_asked_at_the_top_and_its_run_goes_on(loop: LocalLoop, model: ScriptedModel) -> None:
    ask = Reply(calls=(("ask_user", {"question": "Which?"}),))
    script(model, {"a": (ask, said("a"))}, plan=written([a_step("a")]))
    run_id = begin("A large task", "plan_by_tools", session_id="plan-ask").run.run_id
    wait_for_event(run_id, "interaction.required")
    assert read_run(run_id, ME).status is RunStatus.WAITING
    begin("that one", "plan_by_tools", session_id="plan-ask")
    run = end(run_id)
    assert (run.answer, statuses(run)) == ("All is done.", {"a": "done"})


def test_cancelling_ends_the_steps_that_run(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    script(
        model,
        {"a": (Reply(calls=(probe("sleep", "a", 1.5),)), said("a"))},
        plan=written([a_step("a"), a_step("b", "a")]),
    )
    run_id = begin("A large task", "plan_by_tools").run.run_id
    wait_for_event(run_id, "step.started")
    run = cancel(run_id, ME)
    [call] = calls_of(run)
    step = RunKey.parse(sub_run_of(run.key, call.key))
    # Whoever was about to begin the step sees that it is over, and ends its run in the place of who cancelled.
    wait_for(lambda: (found := load_run(step)) is not None and found.status is RunStatus.CANCELLED)
    wait_for(lambda: execution_status(run) != "RUNNING")
    assert (run.status, events_of(run_id)[-1]) == ("cancelled", "run.cancelled")


# ---- a choice


def choose(strategy: str) -> Reply:
    return Reply(text=json.dumps({"strategy": strategy, "why": "It has parts."}))


def test_run_goes_over_to_a_plan_when_its_model_chooses_that(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for(CHOOSE, choose("plan"))
    script(model, {step.id: said(step.id) for step in DIAMOND})
    run_id = begin("A large task", "undecided").run.run_id
    run = end(run_id)
    assert (run.strategy, run.answer, run.executions) == ("plan", "All is done.", 2)
    [chosen] = told(run, "strategy.chosen")
    assert chosen.data == {"strategy": "plan", "why": "It has parts."}
    assert len(model.requests) == 8


def test_run_goes_on_at_once_when_its_model_chooses_to_work_step_by_step(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for(CHOOSE, choose("react"))
    model.script_for("A small task", Reply(text="Done."))
    run = end(begin("A small task", "undecided").run.run_id)
    assert (run.strategy, run.answer, run.executions) == ("react", "Done.", 1)
    assert loop.state_entries(run.run_id) == 3
    assert run.usage.input_tokens == 20


def test_request_may_choose_in_the_place_of_the_agent(loop: LocalLoop, model: ScriptedModel) -> None:
    script(model, {"a": said("a")}, plan=written([a_step("a")]))
    run = end(begin("A large task", "prober", strategy="plan").run.run_id)
    assert (run.strategy, statuses(run)) == ("plan", {"a": "done"})


# ---- over HTTP


def test_run_shows_how_it_works_and_its_plan(api: httpx.Client, model: ScriptedModel) -> None:
    script(model, {"a": said("a")}, plan=written([a_step("a")]))
    begun = api.post("/runs", json={"agent": "prober", "input": "A large task", "strategy": "plan"}).json()
    run = end(begun["run_id"])
    shown = api.get(f"/runs/{run.run_id}").json()
    assert (shown["strategy"], shown["strategy_reason"], shown["answer"]) == ("plan", None, "All is done.")
    assert [(step["id"], step["status"], step["attempt"]) for step in shown["plan"]["steps"]] == [("a", "done", 1)]


def test_chat_gets_the_answer_of_a_plan_and_nothing_of_how_it_was_made(api: httpx.Client, model: ScriptedModel) -> None:
    script(model, {"a": said("a")}, plan=written([a_step("a")]))
    asked = {"model": "plan_by_tools", "messages": [{"role": "user", "content": "A large task"}], "stream": True}
    told = api.post("/chat/completions", json=asked).text
    pieces = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
    texts = [choice["delta"].get("content") or "" for piece in pieces for choice in piece["choices"]]
    assert "".join(texts) == "All is done."


def test_strategy_that_there_is_not_is_refused_by_name(api: httpx.Client) -> None:
    refused = api.post("/runs", json={"agent": "prober", "input": "x", "strategy": "tree"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "strategy")
