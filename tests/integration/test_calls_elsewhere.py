"""Calls that run elsewhere: another agent, a state machine or a function of another stack."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepagent.agents import MAX_DEPTH
from stepagent.api.service import read_run
from stepagent.delegation import sub_run_of
from stepagent.runs import Run
from stepagent.store.runs import require_run
from tests.integration.runs import ME, begin, calls_of, events_of, finish, probe, results_of, wait_for_event
from tests.local_loop import LocalLoop
from tests.scripted_model import Fault, Reply, ScriptedModel


def delegate(loop: LocalLoop, question: str) -> Run:
    return finish(loop, question, "delegator")


def test_agents_answer_is_the_result_of_the_call_that_asked_it(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("ask the helper", Reply(calls=(("helper", {"task": "find it"}),)), Reply(text="Found."))
    model.script_for("find it", Reply(text="It is here."))
    run = delegate(loop, "ask the helper")
    assert (run.answer, results_of(run)) == ("Found.", ["It is here."])


def test_run_of_an_agent_belongs_to_the_caller_and_its_tokens_count_for_the_run_above(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script_for("count the helper", Reply(calls=(("helper", {"task": "spend"}),)), Reply(text="Spent."))
    model.script_for("spend", Reply(text="Done."))
    run = delegate(loop, "count the helper")
    child = read_run(sub_run_of(run.key, calls_of(run)[0].key), ME)
    assert (child.status, child.depth, child.answer) == ("completed", 1, "Done.")
    own = loop.client("dynamodb")  # what both spent is what the run above shows
    assert own
    assert run.usage.input_tokens > child.usage.input_tokens > 0


def test_agent_that_failed_is_an_error_of_its_call(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("ask the broken one", Reply(calls=(("helper", {"task": "break"}),)), Reply(text="It broke."))
    model.script_for("break", Fault(400, body={"error": {"message": "odd field"}}))
    run = delegate(loop, "ask the broken one")
    [call] = calls_of(run)
    assert call.result
    assert call.result.is_error
    assert "odd field" in call.result.text


def test_agents_call_one_another_only_so_deep(loop: LocalLoop, model: ScriptedModel) -> None:
    task = ("deeper", {"task": "go deeper"})
    model.script_for("go deeper", *(Reply(calls=(task,)) for _ in range(MAX_DEPTH + 1)))
    model.default = Reply(text="The ground.")
    run = delegate(loop, "go deeper")
    depth = 0
    while (calls := calls_of(run)) and run.depth < MAX_DEPTH:
        run, depth = require_run(sub_run_of(run.key, calls[0].key)), depth + 1
    assert depth == MAX_DEPTH
    assert "levels deep" in results_of(run)[0]


def test_agents_of_one_turn_run_side_by_side(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    tasks = (("helper", {"task": "left"}), ("helper", {"task": "right"}))
    model.script_for("ask both", Reply(calls=tasks), Reply(text="Both."))
    model.script_for("left", Reply(calls=(probe("echo", "l"),)), Reply(text="L"))
    model.script_for("right", Reply(calls=(probe("echo", "r"),)), Reply(text="R"))
    assert results_of(delegate(loop, "ask both")) == ["L", "R"]


@pytest.mark.parametrize(
    ("arguments", "expected", "is_error"),
    [
        ({"value": {"big": 2**70, "zero": 0}}, {"value": {"big": 2**70, "zero": 0}}, False),
        ({"fail": True}, "FlowBroken: it was told to", True),
    ],
)
def test_workflows_output_is_the_result_of_the_call_that_started_it(
    loop: LocalLoop, model: ScriptedModel, arguments: dict[str, Any], expected: Any, is_error: bool
) -> None:
    model.script(Reply(calls=(("flow", arguments),)), Reply(text="done"))
    [call] = calls_of(delegate(loop, "start the flow"))
    assert call.result
    assert call.result.is_error is is_error
    assert expected in call.result.text if is_error else json.loads(call.result.text) == expected


def test_workflow_that_cannot_be_started_is_an_error_of_its_call(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(calls=(("forbidden_flow", {}),)), Reply(text="done"))
    assert "cannot be started" in results_of(delegate(loop, "start nothing"))[0]


def test_function_of_another_stack_has_the_arguments_and_what_the_author_bound(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script(Reply(calls=(("theirs", {"value": 0}),)), Reply(text="done"))
    run = delegate(loop, "call theirs")
    assert json.loads(results_of(run)[0]) == {"given": {"value": 0, "secret": "from the author"}}
    assert "secret" not in json.dumps(model.requests[0]["tools"])


def test_bound_value_cannot_be_set_by_the_model(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(calls=(("theirs", {"secret": "mine"}),)), Reply(text="done"))
    assert "'secret' was unexpected" in results_of(delegate(loop, "override"))[0]


def test_function_of_another_stack_that_raised_is_an_error_of_its_call(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(calls=(("theirs", {"fail": True}),)), Reply(text="done"))
    assert "ValueError: theirs is broken" in results_of(delegate(loop, "break theirs"))[0]


def test_tool_runs_under_the_name_that_its_agent_gives_it(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script(Reply(calls=(("shout", {}),)), Reply(text="done"))
    run = delegate(loop, "shout")
    assert results_of(run) == ["bound"]
    [shown] = [tool for tool in model.requests[0]["tools"] if tool["function"]["name"] == "shout"]
    assert list(shown["function"]["parameters"]["properties"]) == ["number"]


def test_followers_are_told_of_calls_that_run_elsewhere(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(calls=(("flow", {"value": 1}),)), Reply(text="done"))
    events = events_of(delegate(loop, "tell of the flow").run_id)
    assert [event for event in events if event.startswith("tool.")] == ["tool.started", "tool.completed"]


def test_question_of_an_agent_is_asked_at_the_top(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("ask through", Reply(calls=(("helper", {"task": "ask them"}),)), Reply(text="Thanks."))
    model.script_for("ask them", Reply(calls=(("ask_user", {"question": "Which?"}),)), Reply(text="They said so."))
    run_id = begin("ask through", "delegator", session_id="through").run.run_id
    wait_for_event(run_id, "interaction.required")
    begin("that one", "delegator", session_id="through")
    loop.wait_end(run_id)
    run = read_run(run_id, ME)
    assert (run.answer, results_of(run)) == ("Thanks.", ["They said so."])
