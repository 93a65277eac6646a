"""Answers whose giver died, came too late or was not alone: the loop gets one of them, and the record says which."""

import pytest

from stepagent import delivering
from stepagent import think as thinking
from stepagent.answering import answer, list_interactions
from stepagent.asking import ask
from stepagent.delivering import close_question
from stepagent.errors import Conflict, Expired
from stepagent.interactions import Interaction
from stepagent.messages import AssistantMessage
from stepagent.runs import Call, CallResult, Decision, Outcome, Run, RunStatus, StopReason, TurnRecord
from stepagent.store import questions as store
from stepagent.store.calls import store_result
from stepagent.store.runs import require_run
from stepagent.think import think
from stepagent.usage import Usage
from tests.builders import NOON, OWNER, RUN_ID
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


@pytest.mark.parametrize("call", [a_question(), an_approval()])
def test_answer_is_fetched_when_the_function_died_that_asked_and_its_state_is_entered_again(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    begun(call)
    question = asked(loop, call, token="first")
    loop.waiting.clear()

    def entered_again(run: Run) -> Run:
        ask(RUN_ID, call.call_id, "first")  # the request that died may arrive late
        asked(loop, call, token="second")
        return run

    monkeypatch.setattr(delivering, "ensure_execution", entered_again)
    monkeypatch.setattr(delivering, "_RETRIES_S", 1)
    assert answer(question, OWNER, "approve").status == "answered"
    assert (loop.waiting, require_run(RUN_ID).pending) == (set(), ())


def test_answer_is_taken_back_when_the_loop_waits_no_longer(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.waiting.clear()
    for _ in range(2):
        with pytest.raises(Expired):
            answer(question, OWNER, "blue")
    assert len(loop.sent) == 1
    assert (result_of(call).text, result_of(call).is_error) == ("Nobody answered in time.", True)
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])
    assert statuses(question) == ["pending", "answered", "expired"]


def test_answer_is_brought_to_the_loop_when_its_giver_died_before_that(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    assert loop.waiting
    assert answer(question, OWNER, "blue").answer == "blue"
    assert (loop.waiting, require_run(RUN_ID).pending, result_of(call).text) == (set(), (), "blue")


def test_first_answer_is_brought_to_the_loop_by_whoever_comes_next(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    with pytest.raises(Conflict):
        answer(question, OWNER, "red")
    assert (loop.waiting, result_of(call).text) == (set(), "blue")


def test_answer_stands_when_the_same_one_was_quicker_with_the_token(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    twins: list[Interaction] = []
    loop.before_sending = lambda: twins.append(answer(question, OWNER, "blue"))
    twins.append(answer(question, OWNER, "blue"))
    assert twins[0] == twins[1]
    assert (len(loop.sent), result_of(call).text, statuses(question)) == (2, "blue", ["pending", "answered"])
    assert types() == ["interaction.required", "interaction.resolved", "tool.completed"]


def test_answer_stands_when_the_same_one_has_used_the_token_and_not_yet_noted_it(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)

    def twin_sends() -> None:
        store.begin_delivery(question)
        loop.waiting.clear()

    loop.before_sending = twin_sends
    assert answer(question, OWNER, "blue").answer == "blue"
    assert (result_of(call).text, statuses(question)) == ("blue", ["pending", "answered"])


def test_answer_stands_when_its_giver_died_behind_the_loop(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    with monkeypatch.context() as patch:
        patch.setattr(store, "settle_question", lambda interaction: dies())
        with pytest.raises(Died):
            answer(question, OWNER, "blue")
    assert answer(question, OWNER, "blue").answer == "blue"
    close_question(question)  # as the next turn does with what it finds open
    assert (require_run(RUN_ID).pending, list_interactions(OWNER), result_of(call).text) == ((), [], "blue")


def test_loop_has_the_answer_when_its_state_is_entered_anew_behind_it(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call, token="old")
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    asked(loop, call, token="new")
    assert ("new" in loop.waiting, require_run(RUN_ID).pending, result_of(call).text) == (False, (), "blue")


def test_loop_goes_on_when_its_state_is_entered_anew_behind_a_settled_question(loop: Loop) -> None:
    begun(call := a_question())
    answer(asked(loop, call, token="old"), OWNER, "blue")
    asked(loop, call, token="new")
    assert loop.waiting == set()


def test_question_cannot_be_answered_when_its_call_was_ended(loop: Loop) -> None:
    run = begun(call := a_question())
    question = asked(loop, call)
    store_result(run.key, call.key, CallResult(text="cancelled", finished_at=NOON))
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")
    assert (loop.sent, result_of(call).text) == ([], "cancelled")


def test_next_turn_notes_an_answer_whose_giver_died_behind_the_loop(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    with monkeypatch.context() as patch:
        patch.setattr(store, "settle_question", lambda interaction: dies())
        with pytest.raises(Died):
            answer(question, OWNER, "blue")
    outcome = Outcome(RunStatus.COMPLETED, StopReason.ANSWERED, "Blue.")
    decision = Decision(run_id=RUN_ID, turn=2, next="done")
    record = TurnRecord(decision, AssistantMessage(text="Blue."), (), Usage(), outcome)
    monkeypatch.setattr(thinking, "run_turn", lambda run, turn, entries, ask: record)
    think(RUN_ID, 2)
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])
