"""The three calling modes through the deployed state machine: one loop, one history, one answer."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from stepagent.api.chat import stream_chat
from stepagent.api.service import read_run, say
from tests.integration.runs import ME, chat, finish, probe, question, results_of
from tests.local_loop import LocalLoop
from tests.scripted_model import Fault, Reply, ScriptedModel

Mode = Literal["tools", "functions", "text"]
MODES: list[Mode] = ["tools", "functions", "text"]
CALCULATE = ("calculator", {"expression": "17*23"})


def call(mode: Mode, wanted: tuple[str, Any]) -> Reply:
    """A reply that makes one call, as a model called in this mode writes it."""
    name, arguments = wanted
    if mode == "text":
        return Reply(text="1: " + json.dumps({"toolId": name, "arguments": arguments}))
    return Reply(calls=(wanted,), mode=mode)


def answer(mode: Mode, text: str) -> Reply:
    return Reply(text=f"0: {text}" if mode == "text" else text)


def streamed(text: str, agent: str, session: str) -> str:
    """The answer as a client reads it from a stream."""
    request = question(text, agent, session_id=session, stream=True)

    async def read() -> list[bytes]:
        return [part async for part in stream_chat(request, say(request, ME))]

    parts = asyncio.run(read())
    assert parts[-1] == b"data: [DONE]\n\n"
    chunks = [json.loads(part.removeprefix(b"data: ")) for part in parts[:-1] if part.startswith(b"data: ")]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)


def whole(text: str, agent: str, session: str) -> str:
    content: str = chat(text, agent, session_id=session)["choices"][0]["message"]["content"]
    return content


def roles(request: dict[str, Any]) -> list[str]:
    return [message["role"] for message in request["messages"]]


@pytest.mark.parametrize("way", [streamed, whole])
@pytest.mark.parametrize("mode", MODES)
def test_conversation_of_three_questions_is_answered_in_every_mode(
    loop: LocalLoop, model: ScriptedModel, probed: Path, mode: Mode, way: Any
) -> None:
    agent, session = f"by_{mode}", f"three-{mode}-{way.__name__}"
    model.script(call(mode, probe("echo", "blue")), call(mode, CALCULATE), answer(mode, "Blue, at 10:30, and 391."))
    model.script(call(mode, probe("raise", "no disk")), answer(mode, "That failed."))
    model.script(answer(mode, "391, as I said."))
    asked = ("Which colour, and what is 17*23?", "Write it down.", "What was the number?")
    assert [way(text, agent, session) for text in asked] == [
        "Blue, at 10:30, and 391.",
        "That failed.",
        "391, as I said.",
    ]
    after_failure, last = model.requests[4], model.requests[5]
    assert "RuntimeError: no disk" in after_failure["messages"][-1]["content"]
    assert all(said in json.dumps(last["messages"]) for said in ("blue", "391", "no disk", "That failed."))


@pytest.mark.parametrize(
    ("mode", "fields", "result_role"),
    [
        ("tools", {"tools", "tool_choice"}, "tool"),
        ("functions", {"functions", "function_call"}, "function"),
        ("text", set(), "user"),
    ],
)
def test_request_has_the_fields_of_its_mode_and_no_others(
    loop: LocalLoop, model: ScriptedModel, probed: Path, mode: Mode, fields: set[str], result_role: str
) -> None:
    model.script(call(mode, probe("echo", "blue")), answer(mode, "Blue."))
    finish(loop, "fields", f"by_{mode}")
    known = {"tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"}
    assert known & set(model.requests[0]) == fields
    assert roles(model.requests[1])[-2:] == ["assistant", result_role]


@pytest.mark.parametrize("mode", MODES)
def test_run_lands_softly_in_every_mode_when_the_model_asks_for_tools_for_ever(
    loop: LocalLoop, model: ScriptedModel, probed: Path, mode: Mode
) -> None:
    model.script(*[call(mode, probe("echo", "again"))] * 3, answer(mode, "As far as I know: blue."))
    run = finish(loop, "for ever", f"by_{mode}")
    assert (run.status, run.stop_reason, run.answer) == ("completed", "max_turns", "As far as I know: blue.")
    assert len(probed.read_text().splitlines()) == 3
    assert not {"tools", "functions"} & set(model.requests[-1])
    assert '"toolId"' not in model.requests[-1]["messages"][0]["content"]


@pytest.mark.parametrize("mode", MODES)
def test_run_says_why_in_every_mode_when_the_closing_reply_is_one_more_call(
    loop: LocalLoop, model: ScriptedModel, probed: Path, mode: Mode
) -> None:
    model.default = call(mode, probe("echo", "again"))
    run = finish(loop, "for ever and ever", f"by_{mode}")
    assert (run.stop_reason, len(model.requests), len(probed.read_text().splitlines())) == ("max_turns", 4, 3)
    assert "3 steps" in run.answer


def test_session_keeps_its_history_when_it_changes_its_mode_with_every_question(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    for number, mode in enumerate([*MODES, *reversed(MODES)]):
        model.script(call(mode, probe("echo", f"found-{number}")), answer(mode, f"answer-{number}"))
        run = finish(loop, f"question-{number}", f"by_{mode}", session_id="changing")
        assert run.answer == f"answer-{number}"
        told = json.dumps(model.requests[-1]["messages"])
        assert [f"found-{earlier}" in told for earlier in range(number + 1)] == [True] * (number + 1)
    assert len(probed.read_text().splitlines()) == 6


def test_text_around_a_call_reaches_the_person_once_when_calls_are_text(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    wanted = json.dumps({"toolId": "probe", "arguments": {"action": "echo", "value": "blue"}})
    model.script(
        Reply(text=f"0: I look.\n1: {wanted}\nResult of probe: red\n0: It is red."), Reply(text="0: It is blue.")
    )
    assert whole("Which colour?", "by_text", "around") == "I look.\n\nIt is blue."
    assert probed.read_text() == "echo blue\n"


def test_broken_call_is_corrected_and_never_shown_when_calls_are_text(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(text='1: {"toolId": "pro'), Reply(text="0: Sorry, it is blue."))
    assert whole("Which colour?", "by_text", "corrected") == "Sorry, it is blue."
    assert roles(model.requests[1])[-2:] == ["assistant", "user"]


def test_server_that_refuses_tools_is_asked_for_text_at_once_the_next_time(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    refusal = Fault(400, body={"error": {"message": "registry/toolless does not support tools"}})
    model.script(refusal, call("text", probe("echo", "blue")), answer("text", "It is blue."))
    first = finish(loop, "Which colour?", "toolless")
    model.script(answer("text", "Blue, still."))
    second = finish(loop, "And now?", "toolless")
    assert (first.answer, results_of(first), second.answer) == ("It is blue.", ["blue"], "Blue, still.")
    assert ["tools" in request for request in model.requests] == [True, False, False, False]


def test_other_models_of_the_server_are_offered_tools_still_when_one_refused_them(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script(answer("tools", "Fine."))
    finish(loop, "Hello?", "prober")
    assert "tools" in model.requests[0]


@pytest.mark.parametrize("mode", MODES)
def test_run_waits_as_long_as_the_provider_says_and_goes_on(loop: LocalLoop, model: ScriptedModel, mode: Mode) -> None:
    limited = Fault(429, {"Retry-After": "2"}, {"error": {"message": "Rate limit reached"}})
    model.script(limited, answer(mode, "Here I am."))
    began = time.monotonic()
    run = finish(loop, "in a hurry", f"by_{mode}")
    assert (run.status, run.answer, len(model.requests)) == ("completed", "Here I am.", 2)
    assert time.monotonic() - began >= 2


def test_run_fails_at_once_when_the_quota_is_spent(loop: LocalLoop, model: ScriptedModel) -> None:
    spent = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
    model.default = Fault(429, {"Retry-After": "1"}, spent)
    run = finish(loop, "poor", "by_tools")
    assert run.failure
    assert (run.status, run.failure.code, len(model.requests)) == ("failed", "model_quota_spent", 1)


TOO_LONG = Fault(400, body={"error": {"message": "maximum context length", "code": "context_length_exceeded"}})


@pytest.mark.parametrize("mode", MODES)
def test_conversation_is_shortened_once_when_the_model_says_that_it_is_too_long(
    loop: LocalLoop, model: ScriptedModel, mode: Mode
) -> None:
    agent, session = f"by_{mode}", f"long-{mode}"
    model.script(*[answer(mode, f"answer-{number} " + "x" * 2_000) for number in range(4)])
    for number in range(4):
        finish(loop, f"question-{number}", agent, session_id=session)
    model.script(TOO_LONG, answer(mode, "Short again."))
    run = finish(loop, "the last question", agent, session_id=session)
    refused, taken = (json.dumps(request["messages"]) for request in model.requests[-2:])
    assert run.answer == "Short again."
    assert len(taken) < 0.8 * len(refused)
    assert "question-0" in refused
    assert "question-0" not in taken
    assert "the last question" in taken


def test_run_fails_after_two_requests_when_the_shortened_conversation_is_too_long_as_well(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script(answer("tools", "x" * 2_000))
    finish(loop, "first", "by_tools", session_id="too-long")
    model.default = TOO_LONG
    run = finish(loop, "second", "by_tools", session_id="too-long")
    assert run.failure
    assert (run.failure.code, len(model.requests)) == ("model_context_exceeded", 3)


def test_same_request_is_not_sent_twice_when_there_is_nothing_to_leave_out(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.default = TOO_LONG
    run = finish(loop, "alone", "by_tools")
    assert run.failure
    assert (run.failure.code, len(model.requests)) == ("model_context_exceeded", 1)


def test_other_model_answers_when_the_agents_own_cannot_be_reached(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(answer("tools", "In its place."))
    assert finish(loop, "Is anybody there?", "insured").answer == "In its place."


def test_tokens_of_every_request_count_when_some_replies_were_unusable(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(
        Reply(text="1: {", usage=(100, 10)), Reply(text="", usage=(20, 2)), Reply(text="0: Yes.", usage=(3, 1))
    )
    run = read_run(finish(loop, "count", "by_text").run_id, ME)
    assert (run.usage.input_tokens, run.usage.output_tokens) == (123, 13)


def test_run_goes_on_in_every_mode_when_the_server_does_not_stream(loop: LocalLoop, model: ScriptedModel) -> None:
    for mode in MODES:
        message = {"role": "assistant", "content": "0: Whole." if mode == "text" else "Whole."}
        body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7}}
        model.script(Fault(200, body=body))
        run = finish(loop, "whole", f"by_{mode}")
        assert (run.answer, run.usage.input_tokens) == ("Whole.", 7)
