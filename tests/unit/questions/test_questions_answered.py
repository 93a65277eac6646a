"""Questions to people, answered once or closed: what the call, the run, its owner and its followers have of it."""

from collections.abc import Callable

import pytest

from stepagent.answering import answer, list_interactions, read_interaction
from stepagent.delivering import close_question
from stepagent.errors import Conflict, Expired, InvalidAnswer, InvalidRequest, NotFound
from stepagent.runs import InteractionId, Principal, RunStatus
from stepagent.store.runs import require_run
from tests.builders import OWNER, RUN_ID
from tests.questions_in_record import (
    NOTHING,
    Loop,
    a_question,
    asked,
    begun,
    events,
    result_of,
    statuses,
    types,
)


def test_question_has_waited_no_time_when_the_clock_of_who_asked_is_ahead(
    loop: Loop, at: Callable[[float], None]
) -> None:
    begun(call := a_question())
    at(30)
    question = asked(loop, call)
    at(0)
    answer(question, OWNER, "blue")
    assert result_of(call).waited_s == 0


def test_answer_is_the_result_of_the_call_that_asked(loop: Loop, at: Callable[[float], None]) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    at(42)
    answered = answer(question, OWNER, " blue ")
    assert (answered.answer, answered.status) == ("blue", "answered")
    assert (result_of(call).text, result_of(call).is_error, result_of(call).waited_s) == ("blue", False, 42)
    assert loop.sent == [(f"token-{RUN_ID}-{call.call_id}", NOTHING)]


def test_nobody_waits_any_more_when_a_question_is_answered(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])
    assert require_run(RUN_ID).status is RunStatus.RUNNING
    assert statuses(question) == ["pending", "answered"]


def test_followers_are_told_of_the_answer_and_the_result(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    _, resolved, completed = events()
    assert (resolved.data["interaction_id"], resolved.data["status"]) == (question, "answered")
    assert (completed.data["id"], completed.data["text"], completed.data["is_error"]) == (call.call_id, "blue", False)


def test_same_answer_again_is_the_same_success_and_does_nothing(loop: Loop) -> None:
    begun(call := a_question(options=["x", "y"]))
    question = asked(loop, call)
    first, second = answer(question, OWNER, "y"), answer(question, OWNER, " Y ")
    assert first == second
    assert len(loop.sent) == 1
    assert types().count("interaction.resolved") == 1


def test_another_answer_is_a_conflict(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    with pytest.raises(Conflict):
        answer(question, OWNER, "red")
    assert result_of(call).text == "blue"


def test_question_stays_open_when_an_answer_does_not_fit(loop: Loop) -> None:
    begun(call := a_question(options=["x", "y"]))
    question = asked(loop, call)
    with pytest.raises(InvalidAnswer):
        answer(question, OWNER, "z")
    assert (loop.sent, require_run(RUN_ID).pending) == ([], (question,))
    assert answer(question, OWNER, "y").answer == "y"


@pytest.mark.parametrize("interaction_id", ["", "nope", "x" * 5_000, "a#b"])
def test_unknown_question_is_not_found(loop: Loop, interaction_id: str) -> None:
    with pytest.raises(NotFound):
        answer(interaction_id, OWNER, "blue")


def test_question_of_somebody_else_is_not_found(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    with pytest.raises(NotFound):
        answer(question, Principal("bob"), "x")
    with pytest.raises(NotFound):
        read_interaction(question, Principal("bob"))
    assert list_interactions(Principal("bob")) == []


def test_answer_has_expired_when_it_comes_after_the_time(loop: Loop, at: Callable[[float], None]) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    at(61)
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")
    assert (loop.sent, list_interactions(OWNER)) == ([], [])


def test_followers_are_told_that_an_answer_came_too_late(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.waiting.clear()
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")
    assert [event.data.get("status", event.data.get("is_error")) for event in events()[-2:]] == ["expired", True]


def test_long_answer_is_cut_for_the_model_as_any_result_is(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []
    monkeypatch.setattr("stepagent.tools.execution.keep_result", lambda run, call, text_bytes: kept.append(text_bytes))
    begun(call := a_question())
    answer(asked(loop, call), OWNER, "x" * 20_000)
    assert (len(kept[0]), result_of(call).kept_bytes) == (20_000, 20_000)
    assert len(result_of(call).text.encode()) <= 16_384


def test_only_what_waits_can_be_listed(loop: Loop) -> None:
    with pytest.raises(InvalidRequest) as refused:
        list_interactions(OWNER, "answered")
    assert refused.value.param == "status"


def test_reading_and_listing_change_nothing(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    for _ in range(3):
        read_interaction(question, OWNER)
        list_interactions(OWNER)
    assert (loop.sent, statuses(question), types()) == ([], ["pending"], ["interaction.required"])


# ---- closed


def test_question_cannot_be_answered_when_it_was_closed(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    assert [close_question(question), close_question(question)] == [True, False]
    with pytest.raises(Expired, match="was cancelled"):
        answer(question, OWNER, "blue")
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])
    assert [event.data.get("status") for event in events()] == ["pending", "cancelled"]


def test_answered_question_is_not_closed(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    assert not close_question(question)
    assert statuses(question) == ["pending", "answered"]


def test_closing_what_was_never_asked_does_nothing(loop: Loop) -> None:
    assert not close_question(InteractionId("nope"))
