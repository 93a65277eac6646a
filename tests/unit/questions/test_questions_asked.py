"""Questions to people as they are asked: who knows of them, and one alone however often their state is entered."""

import pytest

from stepagent import asking
from stepagent.answering import answer, list_interactions, read_interaction
from stepagent.asking import ask
from stepagent.errors import RecordConflict
from stepagent.interactions import Interaction
from stepagent.runs import Call, CallResult, CallStatus, Outcome, RunStatus, StopReason
from stepagent.store import questions as store
from stepagent.store.calls import claim_call, store_result
from stepagent.store.journal import read_events
from stepagent.store.runs import close_run, require_run
from tests.builders import NOON, OWNER, RUN_ID
from tests.questions_in_record import (
    NOTHING,
    Loop,
    a_question,
    an_approval,
    asked,
    begun,
    events,
    result_of,
    shown_to_owner,
    standing,
    types,
)


def test_run_and_owner_know_of_a_question_when_it_is_asked(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    assert require_run(RUN_ID).pending == (question,)
    assert require_run(RUN_ID).status is RunStatus.WAITING
    assert [each.interaction_id for each in list_interactions(OWNER)] == [question]
    assert standing(call).status is CallStatus.STARTED


def test_event_has_all_that_an_answer_needs_when_a_question_is_asked(loop: Loop) -> None:
    begun(call := a_question(options=["x", "y"]))
    question = asked(loop, call)
    [event] = events()
    assert event.data["interaction_id"] == question
    assert event.data["options"] == [{"key": "x", "value": "x"}, {"key": "y", "value": "y"}]
    assert (event.data["type"], event.data["text"]) == ("choice", "Which?\n- x\n- y")


def test_task_token_is_in_no_event_and_no_view(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call, token="secret-token")
    shown = f"{read_events(RUN_ID, 0)}{read_interaction(question, OWNER)!r}{list_interactions(OWNER)}"
    assert "secret-token" not in shown


def test_ids_of_questions_are_random_and_long(loop: Loop) -> None:
    begun(first := a_question(), second := a_question(1))
    ids = {asked(loop, first), asked(loop, second)}
    assert [len(id_) for id_ in ids] == [22, 22]  # 16 bytes each


def test_owner_knows_of_questions_in_the_order_in_which_they_were_asked(loop: Loop) -> None:
    begun(*(calls := [a_question(position) for position in (2, 0, 1)]))
    questions = [asked(loop, call) for call in calls]
    assert [each.interaction_id for each in list_interactions(OWNER)] == questions


def test_run_knows_of_questions_in_the_order_of_their_calls_whichever_was_asked_first(loop: Loop) -> None:
    begun(*(calls := [a_question(position) for position in (10, 0, 2)]))
    last, first, second = [asked(loop, call) for call in calls]
    assert require_run(RUN_ID).pending == (first, second, last)


def test_model_is_told_and_the_loop_goes_on_when_what_it_asks_cannot_be_shown(loop: Loop) -> None:
    begun(call := a_question(options=[None]))
    loop.waiting.add("token")
    ask(RUN_ID, call.call_id, "token")
    assert result_of(call).is_error
    assert "options must be a list" in result_of(call).text
    assert (loop.sent, require_run(RUN_ID).pending) == ([("token", NOTHING)], ())


def test_loop_goes_on_when_the_call_has_its_result(loop: Loop) -> None:
    run = begun(call := a_question())
    store_result(run.key, call.key, CallResult(text="before", finished_at=NOON))
    ask(RUN_ID, call.call_id, "token")
    assert (loop.sent, types()) == ([("token", NOTHING)], [])


def test_nothing_is_asked_when_the_run_has_ended(loop: Loop) -> None:
    run = begun(call := a_question())
    close_run(run, Outcome(RunStatus.CANCELLED, StopReason.CANCELLED))
    ask(RUN_ID, call.call_id, "token")
    assert (loop.sent, list_interactions(OWNER)) == ([("token", NOTHING)], [])


def test_call_asks_nothing_when_its_tool_began(loop: Loop) -> None:
    run = begun(call := a_question())
    claim_call(run.key, call.key)
    with pytest.raises(RecordConflict):
        ask(RUN_ID, call.call_id, "token")


def test_answer_goes_to_every_token_when_the_state_was_entered_anew(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call, token="old")
    assert asked(loop, call, token="new") == question
    answer(question, OWNER, "blue")
    assert sorted(loop.sent) == [("new", NOTHING), ("old", NOTHING)]


def test_question_is_told_again_when_the_state_was_entered_anew(loop: Loop) -> None:
    begun(call := a_question())
    asked(loop, call)
    asked(loop, call)
    assert types() == ["interaction.required", "interaction.required"]


@pytest.mark.parametrize("call", [a_question(), an_approval()])
def test_one_question_is_asked_when_two_requests_enter_the_state_at_once(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    begun(call)
    store_question = store.ask_question

    def after_the_other(interaction: Interaction, task_token: str) -> None:
        monkeypatch.setattr(asking, "ask_question", store_question)
        asked(loop, call, token="first")
        store_question(interaction, task_token)

    monkeypatch.setattr(asking, "ask_question", after_the_other)
    question = asked(loop, call, token="second")
    assert [each.interaction_id for each in list_interactions(OWNER)] == [question]
    assert require_run(RUN_ID).pending == (question,)


def test_arguments_are_left_out_of_an_event_when_they_are_long(loop: Loop) -> None:
    begun(call := an_approval(arguments={"q": "x" * 30_000}))
    question = asked(loop, call)
    assert events()[0].data["arguments"] is None
    assert len(shown_to_owner(question)["arguments"]["q"]) == 30_000
