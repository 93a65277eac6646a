"""Calls that failed outside their function: each gets one result, and a question behind one is closed."""

from collections.abc import Callable
from typing import Any

import pytest

from stepagent.answering import answer
from stepagent.call_failures import record_failure
from stepagent.errors import Expired
from stepagent.interactions import Interaction
from stepagent.runs import Call, CallResult
from stepagent.store import questions as store
from stepagent.store.calls import claim_call, store_result
from stepagent.store.runs import require_run
from tests.builders import NOON, OWNER, RUN_ID, a_call
from tests.questions_in_record import (
    Died,
    Loop,
    a_question,
    an_approval,
    asked,
    begun,
    dies,
    result_of,
    statuses,
    types,
)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (a_question(), "Nobody answered in time."),
        (an_approval(), "Nobody approved in time, so it was not run."),
    ],
)
def test_call_says_so_when_nobody_answered_in_time(
    loop: Loop, at: Callable[[float], None], call: Call, text: str
) -> None:
    begun(call)
    question = asked(loop, call)
    at(60)
    for _ in range(2):
        record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, result_of(call).is_error, result_of(call).waited_s) == (text, True, 60)
    assert (statuses(question), require_run(RUN_ID).pending) == (["pending", "expired"], ())
    assert types() == ["interaction.required", "interaction.resolved", "tool.completed"]
    with pytest.raises(Expired):
        answer(question, OWNER, "approve")


def test_answer_is_the_result_when_it_came_before_the_time_out_was_noted(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, require_run(RUN_ID).pending) == ("blue", ())
    assert answer(question, OWNER, "blue").answer == "blue"


def test_answer_is_the_result_when_it_comes_while_the_time_out_is_noted(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    close = store.close_question

    def after_the_answer(closing: Interaction, *status: Any) -> bool:
        monkeypatch.setattr(store, "close_question", close)
        answer(question, OWNER, "blue")
        return close(closing, *status)

    monkeypatch.setattr(store, "close_question", after_the_answer)
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, statuses(question)) == ("blue", ["pending", "answered"])
    assert types() == ["interaction.required", "interaction.resolved", "tool.completed"]


def test_approved_call_is_never_run_when_the_approval_did_not_reach_the_loop_in_time(loop: Loop) -> None:
    run = begun(call := an_approval())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "approve")
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert result_of(call).text == "Nobody approved in time, so it was not run."
    assert not claim_call(run.key, call.key).ours
    with pytest.raises(Expired):
        answer(question, OWNER, "approve")


@pytest.mark.parametrize(
    ("error", "words"),
    [("States.Timeout", "Its effects are unknown"), ("Lambda.ResourceNotFoundException", "does not exist")],
)
def test_failure_is_the_tools_when_it_failed_behind_its_approval(loop: Loop, error: str, words: str) -> None:
    run = begun(call := an_approval())
    question = asked(loop, call)
    answer(question, OWNER, "approve")
    claim_call(run.key, call.key)
    record_failure(RUN_ID, call.call_id, error)
    assert words in result_of(call).text
    assert statuses(question) == ["pending", "answered"]


def test_failure_is_the_tools_when_it_came_before_the_approval_was_noted_as_taken(loop: Loop) -> None:
    begun(call := an_approval())
    question = asked(loop, call)

    def fails_at_once() -> None:
        record_failure(RUN_ID, call.call_id, "Lambda.ResourceNotFoundException")

    loop.before_sending = fails_at_once
    answer(question, OWNER, "approve")
    assert "does not exist" in result_of(call).text
    assert statuses(question) == ["pending", "answered"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (a_question(), "Nobody could be asked (RecordConflict)."),
        (an_approval(), "Nobody could be asked to approve it (RecordConflict), so it was not run."),
        (a_call(), "The tool could not be begun (RecordConflict), so it was not run."),
    ],
)
def test_call_gets_a_result_when_its_function_crashed_before_it_asked(loop: Loop, call: Call, words: str) -> None:
    run = begun(call)
    record_failure(RUN_ID, call.call_id, "RecordConflict")
    assert (result_of(call).text, result_of(call).is_error) == (words, True)
    assert not claim_call(run.key, call.key).ours


@pytest.mark.parametrize(
    ("call", "text"),
    [(a_question(), "Nobody could be asked."), (an_approval(), "Nobody could be asked, so it was not run.")],
)
def test_question_is_closed_when_its_function_crashed_behind_it(loop: Loop, call: Call, text: str) -> None:
    begun(call)
    question = asked(loop, call)
    record_failure(RUN_ID, call.call_id, "Lambda.Unknown")
    assert (result_of(call).text, statuses(question)) == (text, ["pending", "cancelled"])
    assert require_run(RUN_ID).pending == ()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("States.Timeout", "did not answer in time"),
        ("Sandbox.Timedout", "did not answer in time"),
        ("Lambda.ResourceNotFoundException", "does not exist"),
        ("Lambda.Unknown", "Lambda.Unknown"),
    ],
)
def test_call_gets_a_result_when_its_function_could_not_give_one(loop: Loop, error: str, words: str) -> None:
    run = begun(call := a_call())
    claim_call(run.key, call.key)
    record_failure(RUN_ID, call.call_id, error)
    assert words in result_of(call).text
    assert result_of(call).is_error


@pytest.mark.parametrize("error", ["Runtime.ExitError", "Runtime.Unknown", "Lambda.Unknown", "RecordUnavailable"])
@pytest.mark.parametrize(("begins", "idempotent"), [(True, False), (True, True), (False, False)])
def test_failure_of_a_call_says_that_its_effects_are_unknown_when_it_began_and_may_not_be_repeated(
    loop: Loop, error: str, begins: bool, idempotent: bool
) -> None:
    run = begun(call := a_call(idempotent=idempotent))
    if begins:
        claim_call(run.key, call.key)
    record_failure(RUN_ID, call.call_id, error)
    told = f"The tool failed ({error})." if begins else f"The tool could not be begun ({error}), so it was not run."
    assert result_of(call).text.startswith(told)
    assert ("effects are unknown" in result_of(call).text) is (begins and not idempotent)


def test_earlier_result_stands_when_a_failure_is_recorded_after_it(loop: Loop) -> None:
    run = begun(call := a_call())
    store_result(run.key, call.key, CallResult(text="before", finished_at=NOON))
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, types()) == ("before", [])
