"""Questions of agents that other agents called: they wait in their own run and in the one at the top."""

import pytest

from stepagent import cancelling
from stepagent.answering import answer, list_interactions
from stepagent.asking import ask
from stepagent.call_failures import record_failure
from stepagent.delivering import close_question
from stepagent.ending import finalize
from stepagent.errors import Expired, RecordConflict
from stepagent.runs import Outcome, RunStatus, StopReason
from stepagent.store.runs import close_run, require_run
from tests.builders import OWNER, RUN_ID, a_call
from tests.questions_in_record import CHILD_ID, Loop, a_question, asked, begun, child_of, events, types


def test_nothing_is_asked_when_the_run_at_the_top_has_ended(loop: Loop) -> None:
    top = begun(above := a_call())
    child_of(above, call := a_question())
    close_run(top, Outcome(RunStatus.CANCELLED, StopReason.CANCELLED))
    with pytest.raises(RecordConflict):
        ask(CHILD_ID, call.call_id, "token")
    assert list_interactions(OWNER) == []


def test_question_of_an_agent_waits_in_its_own_run_and_in_the_one_at_the_top(loop: Loop) -> None:
    begun(above := a_call())
    child_of(above, call := a_question())
    question = asked(loop, call, CHILD_ID)
    assert [require_run(run_id).pending for run_id in (RUN_ID, CHILD_ID)] == [(question,), (question,)]
    assert [(event.data["run_id"], event.data["call_id"]) for run in (RUN_ID, CHILD_ID) for event in events(run)] == [
        (RUN_ID, above.call_id),
        (CHILD_ID, call.call_id),
    ]
    assert [each.interaction_id for each in list_interactions(OWNER)] == [question]


@pytest.mark.parametrize("end", ["answered", "expired", "cancelled"])
def test_neither_run_waits_when_the_question_of_an_agent_has_ended(loop: Loop, end: str) -> None:
    begun(above := a_call())
    child_of(above, call := a_question())
    question = asked(loop, call, CHILD_ID)
    match end:
        case "answered":
            answer(question, OWNER, "blue")
        case "expired":
            record_failure(CHILD_ID, call.call_id, "States.Timeout")
        case _:
            close_question(question)
    assert [require_run(run_id).pending for run_id in (RUN_ID, CHILD_ID)] == [(), ()]
    assert [events(run_id)[1].data["status"] for run_id in (RUN_ID, CHILD_ID)] == [end, end]
    assert "tool.completed" not in types(RUN_ID)
    assert list_interactions(OWNER) == []


def test_questions_of_an_agent_are_known_among_those_of_the_run_at_the_top(loop: Loop) -> None:
    begun(above := a_call(), beside := a_question(1))
    child_of(above, first := a_question(5), second := a_question(2))
    last_of_all = asked(loop, beside)
    questions = [asked(loop, first, CHILD_ID), asked(loop, second, CHILD_ID)]
    assert require_run(RUN_ID).pending == (*questions, last_of_all)


@pytest.mark.parametrize("end", ["cancelled", "finalized"])
def test_neither_run_waits_when_the_run_of_an_agent_has_ended(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(cancelling, "stop_execution", lambda run_id: None)
    begun(above := a_call())
    child_of(above, call := a_question())
    question = asked(loop, call, CHILD_ID)
    if end == "cancelled":
        cancelling.cancel_run(CHILD_ID)
    else:
        finalize(CHILD_ID, "ABORTED")
    assert [require_run(run_id).pending for run_id in (RUN_ID, CHILD_ID)] == [(), ()]
    assert types(RUN_ID) == ["interaction.required", "interaction.resolved"]
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")
