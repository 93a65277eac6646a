"""Questions to a person: the run waits at the AskPerson state and goes on where it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepagent.api.service import read_run
from stepagent.errors import Conflict, Expired, InvalidAnswer, NotFound
from stepagent.interactions import answer
from stepagent.runs import Principal, RunId
from stepagent.store.clients import dynamodb
from stepagent.store.items import question_key
from tests.integration.runs import ME, chat, events_of, finish, probe, results_of
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

ASK = ("ask_user", {"question": "Which colour?"})


def waiting(model: ScriptedModel, *calls: Any, session: str) -> tuple[RunId, list[str]]:
    """A run that waits for a person; its id and its questions' ids."""
    model.script_for(f"paint {session}", Reply(calls=calls or (ASK,)), Reply(text="Blue it is."))
    standing = chat(f"paint {session}", session_id=session)["stepagent"]
    return RunId(standing["run_id"]), [question["interaction_id"] for question in standing["interactions"]]


def test_chat_shows_the_question_when_a_run_waits_for_a_person(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("paint show", Reply(calls=(ASK,)))
    reply = chat("paint show", session_id="show")
    assert reply["choices"][0]["message"]["content"] == "Which colour?"
    assert reply["stepagent"]["status"] == "waiting"


def test_answer_becomes_the_result_of_the_call_that_asked(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, (question,) = waiting(model, session="answer")
    answer(question, ME, "blue")
    loop.wait_end(run_id)
    assert model.requests[-1]["messages"][-1] == {"role": "tool", "tool_call_id": "call_1_0", "content": "blue"}
    assert read_run(run_id, ME).answer == "Blue it is."


def test_chat_message_answers_the_question_that_the_session_waits_with(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, _ = waiting(model, session="by-chat")
    reply = chat("blue", session_id="by-chat")
    assert reply["stepagent"]["run_id"] == run_id
    assert reply["choices"][0]["message"]["content"] == "Blue it is."


def test_other_calls_of_the_turn_run_once_while_a_person_is_asked(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    run_id, (question,) = waiting(model, probe("echo", "a"), ASK, probe("echo", "b"), session="mixed")
    answer(question, ME, "blue")
    loop.wait_end(run_id)
    assert results_of(read_run(run_id, ME)) == ["a", "blue", "b"]
    assert sorted(probed.read_text().splitlines()) == ["echo a", "echo b"]


def test_run_goes_on_when_the_last_of_several_questions_is_answered(loop: LocalLoop, model: ScriptedModel) -> None:
    second = ("ask_user", {"question": "Which size?"})
    run_id, questions = waiting(model, ASK, second, session="several")
    for question in reversed(questions):
        answer(question, ME, f"answer to {questions.index(question)}")
    loop.wait_end(run_id)
    assert sorted(results_of(read_run(run_id, ME))) == ["answer to 0", "answer to 1"]


def test_answer_succeeds_again_when_it_is_the_same(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, (question,) = waiting(model, session="same")
    answer(question, ME, "blue")
    loop.wait_end(run_id)
    assert answer(question, ME, "blue").answer == "blue"
    assert events_of(run_id).count("interaction.resolved") == 1


def test_answer_is_a_conflict_when_there_is_another_one(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, (question,) = waiting(model, session="conflict")
    answer(question, ME, "blue")
    loop.wait_end(run_id)
    with pytest.raises(Conflict):
        answer(question, ME, "red")


def test_question_is_not_found_when_it_belongs_to_somebody_else(loop: LocalLoop, model: ScriptedModel) -> None:
    _, (question,) = waiting(model, session="foreign")
    with pytest.raises(NotFound):
        answer(question, Principal("somebody"), "blue")


def test_question_stays_open_when_an_answer_is_blank(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, (question,) = waiting(model, session="blank")
    with pytest.raises(InvalidAnswer):
        answer(question, ME, "  ")
    assert answer(question, ME, "blue").answer == "blue"
    loop.wait_end(run_id)


def test_run_goes_on_without_an_answer_when_the_question_expires(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("hurry", Reply(calls=(("ask_soon", {"question": "Quick?"}),)), Reply(text="Never mind."))
    run = finish(loop, "hurry", session_id="expiry")
    assert (run.answer, results_of(run), run.pending) == ("Never mind.", ["Nobody answered in time."], ())


def test_answer_is_expired_when_nobody_waits_for_it(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, (question,) = waiting(model, ("ask_soon", {"question": "Quick?"}), session="late")
    loop.wait_end(run_id)
    with pytest.raises(Expired):
        answer(question, ME, "too late")


def test_question_cannot_be_answered_when_its_run_was_stopped(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, (question,) = waiting(model, session="stopped")
    loop.client("stepfunctions").stop_execution(executionArn=loop.execution_arn(run_id))
    model.script_for("something else", Reply(text="A new run."))
    assert chat("something else", session_id="stopped")["choices"][0]["message"]["content"] == "A new run."
    with pytest.raises(Expired):
        answer(question, ME, "blue")


def test_task_token_leaves_the_server_in_no_event_and_no_reply(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("paint secret", Reply(calls=(ASK,)))
    reply = chat("paint secret", session_id="secret", detail=True)
    question = reply["stepagent"]["interactions"][0]["interaction_id"]
    stored = dynamodb().get_item(TableName=loop.stack.record_table, Key=question_key(question))["Item"]
    events = dynamodb().scan(TableName=loop.stack.journal_table)["Items"]
    token = stored["task_token"]["S"]
    assert token not in json.dumps([reply, events], default=str)
