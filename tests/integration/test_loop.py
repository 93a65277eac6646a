"""Whole runs through the deployed state machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runs import (
    begin,
    calls_of,
    chat_of,
    events_of,
    finish,
    function_named,
    probe,
    results_of,
    wait_for_event,
)
from tests.local_loop import LocalLoop
from tests.scripted_model import Fault, Raw, Reply, ScriptedModel


def test_run_answers_with_the_tools_number_when_the_model_calls_it(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(calls=(("calculator", {"expression": "17*23"}),)), Reply(text="It is 391."))
    run = finish(loop, "What is 17*23?", "assistant")
    assert (run.status, run.stop_reason, run.answer) == ("completed", "answered", "It is 391.")
    assert model.requests[1]["messages"][-1]["content"] == "391"


def test_results_keep_the_order_of_the_calls_when_a_later_one_ends_first(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(probe("sleep", "slow", 0.3), probe("echo", "quick"))), Reply(text="done"))
    finish(loop, "order")
    tool_messages = [message["content"] for message in model.requests[1]["messages"] if message["role"] == "tool"]
    assert tool_messages == ["slow", "quick"]


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_state_entries_are_three_and_two_for_each_call(
    loop: LocalLoop, model: ScriptedModel, probed: Path, calls: int
) -> None:
    if calls:
        model.script(Reply(calls=(probe("echo"),) * calls))
    model.script(Reply(text="done"))
    run = finish(loop, "count")
    assert loop.state_entries(run.run_id) == (3 + 2 * calls if calls else 0) + 3


def test_states_stay_under_4_kb_when_30_turns_have_3_calls_with_8_kb_results(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(*(Reply(calls=(probe("repeat", f"{turn:02}", 4096),) * 3) for turn in range(30)), Reply(text="done"))
    run = finish(loop, "a long run")
    details = [detail for event in loop.history(run.run_id) for detail in event.values() if isinstance(detail, dict)]
    sizes = [len(text.encode()) for detail in details for key in ("input", "output") if (text := detail.get(key))]
    assert run.status == "completed"
    assert {len(text) for text in results_of(run)} == {8192}
    assert max(sizes) < 4096


def test_think_returns_the_stored_decision_and_asks_no_model_when_it_is_repeated(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script(Reply(calls=(("ask_user", {"question": "Go on?"}),)), Reply(text="done"))
    run_id = begin("repeat think", session_id="repeat").run.run_id
    wait_for_event(run_id, "interaction.required")
    repeated = json.dumps({"run_id": run_id, "turn": 1})
    think = function_named(loop, "ThinkFunction")
    again = json.load(loop.client("lambda").invoke(FunctionName=think, Payload=repeated)["Payload"])
    requests = len(model.requests)
    chat_of(begin("yes", session_id="repeat"))
    exited = [event.get("stateExitedEventDetails", {}) for event in loop.history(run_id)]
    first = next(json.loads(details["output"]) for details in exited if details.get("name") == "Think")
    assert (again, requests) == (first, 1)


def test_call_runs_nothing_when_it_is_repeated_after_it_is_done(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(probe("echo", "once"),)), Reply(text="done"))
    run = finish(loop, "repeat call")
    payload = json.dumps({"run_id": run.run_id, "call_id": calls_of(run)[0].call_id})
    loop.client("lambda").invoke(FunctionName="stepagent-tool_probe", Payload=payload)
    assert (probed.read_text(), results_of(run)) == ("echo once\n", ["once"])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (probe("raise", "no disk"), "RuntimeError: no disk"),
        (probe("refuse", "not today"), "not today"),
        (probe("exit"), "Interrupted: the call began and did not end."),
        (probe("sleep", "", 30), "did not answer in time"),
        (("absent", {}), "The tool's function does not exist"),
        (("invented", {}), "There is no tool 'invented'"),
        (("probe", '{"action": "ec'), "not valid JSON"),
        (("probe", {"action": "fly"}), "'fly' is not one of"),
    ],
)
def test_run_goes_on_with_the_calls_error_when_a_tool_fails(
    loop: LocalLoop, model: ScriptedModel, probed: Path, call: tuple[str, Any], expected: str
) -> None:
    model.script(Reply(calls=(call, probe("echo", "beside"))), Reply(text="done"))
    run = finish(loop, "fail")
    failed, beside = results_of(run)
    assert run.status == "completed"
    assert expected in failed
    assert beside == "beside"


def test_run_ends_with_the_tools_result_when_a_stop_tool_was_called(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(("finish", {"action": "echo", "value": "the end"}),)))
    run = finish(loop, "stop")
    assert (run.stop_reason, run.answer, len(model.requests)) == ("stop_tool", "the end", 1)


def test_run_lands_softly_when_the_model_asks_for_tools_for_ever(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.default = Reply(calls=(probe("echo"),))
    run = finish(loop, "for ever", "short")
    assert (run.status, run.stop_reason, len(model.requests)) == ("completed", "max_turns", 3)
    assert run.answer
    assert "tools" not in model.requests[-1]


@pytest.mark.parametrize(
    ("step", "code", "words"),
    [
        (Fault(401, body={"error": {"message": "bad key"}}), "model_key_refused", "bad key"),
        (Fault(400, body={"error": {"message": "odd field"}}), "model_request_rejected", "odd field"),
        (Fault(503, headers={"Retry-After": "1"}, body="<html>down</html>"), "model_busy", "status 503"),
        (Raw(chunks=(), done=True), "model_busy", "ended before its reply was complete"),
        (Reply(text="half an answer", cut_after_chunks=2), "model_reply_unusable", "broke the connection off"),
        (Reply(text=""), "model_reply_unusable", "empty"),
    ],
)
def test_run_fails_with_a_reason_and_its_followers_are_told_when_the_provider_fails(
    loop: LocalLoop, model: ScriptedModel, step: Any, code: str, words: str
) -> None:
    model.default = step
    run = finish(loop, "provider")
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("failed", code)
    assert words in run.failure.message
    assert events_of(run.run_id)[-1] == "run.failed"


def test_followers_are_told_once_when_an_execution_is_stopped_from_outside(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(probe("sleep", "", 1),)), Reply(text="never said"))
    following = begin("stop me")
    loop.client("stepfunctions").stop_execution(executionArn=loop.execution_arn(following.run.run_id))
    told = chat_of(following)
    assert told["error"]["message"] == "The run was stopped from outside."
    assert [event for event in events_of(following.run.run_id) if event.startswith("run.")] == [
        "run.started",
        "run.failed",
    ]


def test_session_remembers_calls_and_results_when_it_is_asked_again(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(probe("echo", "blue"),)), Reply(text="It is blue."), Reply(text="Blue, as I said."))
    finish(loop, "Which colour?", session_id="colours")
    run = finish(loop, "Again?", session_id="colours")
    roles = [message["role"] for message in model.requests[-1]["messages"]]
    assert run.answer == "Blue, as I said."
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
