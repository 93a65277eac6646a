"""Questions to a person: the run waits at the AskPerson state and goes on where it was."""

import itertools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepagent.answering import answer, read_interaction
from stepagent.api.service import read_run
from stepagent.cancelling import cancel_run
from stepagent.errors import Conflict, Expired, InvalidAnswer, NotFound
from stepagent.runs import InteractionId, Principal, RunId
from stepagent.store.clients import dynamodb
from stepagent.store.items import question_key
from stepagent.store.journal import read_events
from stepagent.store.runs import require_run
from tests.integration.runs import ME, begin, chat, events_of, finish, probe, results_of, wait_for_event
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

ASK = ("ask_user", {"question": "Which colour?"})


def waiting(
    model: ScriptedModel, *calls: Any, session: str, agent: str = "prober"
) -> tuple[RunId, list[InteractionId]]:
    """A run that waits for a person; its id and its questions' ids."""
    model.script_for(f"paint {session}", Reply(calls=calls or (ASK,)), Reply(text="Blue it is."))
    standing = chat(f"paint {session}", agent, session_id=session)["stepagent"]
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


def test_chat_message_answers_the_question_that_it_names_and_the_reply_says_which_are_left(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    run_id, questions = waiting(model, ASK, ("ask_user", {"question": "Which size?"}), session="named")
    reply = chat("large", session_id="named", interaction_id=questions[1])
    assert [left["interaction_id"] for left in reply["stepagent"]["interactions"]] == [questions[0]]
    chat("blue", session_id="named")
    loop.wait_end(run_id)
    assert results_of(read_run(run_id, ME)) == ["blue", "large"]


def test_chat_message_answers_nothing_when_it_names_a_question_that_does_not_wait(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    _, (question,) = waiting(model, session="misnamed")
    with pytest.raises(NotFound):
        chat("blue", session_id="misnamed", interaction_id="nothing")
    assert answer(question, ME, "blue").answer == "blue"


def test_chat_message_starts_no_run_when_it_names_a_question_and_none_waits(loop: LocalLoop) -> None:
    with pytest.raises(NotFound):
        chat("blue", session_id="quiet", interaction_id="nothing")


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


# ---- choices and forms


APPOINTMENT = {"name": "Ann", "email": "ann@example.com", "day": "2030-02-01"}


def test_model_reads_the_value_and_key_of_a_choice(loop: LocalLoop, model: ScriptedModel) -> None:
    run_id, (question,) = waiting(model, ("ask_plan", {"who": "Ann"}), session="choose", agent="asker")
    assert read_interaction(question, ME).question.description == "Which plan for Ann?"
    assert answer(question, ME, "large").answer == "l"
    loop.wait_end(run_id)
    assert results_of(read_run(run_id, ME)) == ["Large (key: l)"]


def test_options_are_the_models_and_a_chat_message_chooses(loop: LocalLoop, model: ScriptedModel) -> None:
    asks = ("ask_choice", {"question": "Which?", "options": ["x", "y"]})
    model.script_for("offer them", Reply(calls=(asks,)), Reply(text="Good."))
    reply = chat("offer them", "asker", session_id="offer them")
    assert reply["choices"][0]["message"]["content"] == "Which?\n- x\n- y"
    assert chat("Y", "asker", session_id="offer them")["stepagent"]["status"] == "completed"
    assert model.requests[-1]["messages"][-1]["content"] == "y"


def test_model_is_told_when_it_offers_nothing_to_choose_from(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(calls=(("ask_user", {"question": "Which?"}), ("ask_choice", {"question": "Which?"}))))
    run_id = begin("offer nothing", "asker").run.run_id
    wait_for_event(run_id, "interaction.required")
    assert "options" in results_of(read_run(run_id, ME))[1]
    cancel_run(run_id)


def test_form_is_filled_in_over_the_api(loop: LocalLoop, model: ScriptedModel, api: httpx.Client) -> None:
    model.script_for("fill in", Reply(calls=(("ask_form", {"purpose": "A talk"}),)), Reply(text="Good."))
    body = {"model": "asker", "messages": [{"role": "user", "content": "fill in"}]}
    standing = api.post("/chat/completions", json=body).json()["stepagent"]
    question = standing["interactions"][0]["interaction_id"]
    wrong = api.post(f"/interactions/{question}", json={"answer": {**APPOINTMENT, "people": 21}})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (422, "answer.people")
    right = api.post(f"/interactions/{question}", json={"answer": {**APPOINTMENT, "way": "on the phone"}})
    assert (right.status_code, right.json()["status"]) == (200, "answered")
    loop.wait_end(RunId(standing["run_id"]))
    [result] = results_of(require_run(standing["run_id"]))
    assert json.loads(result) == {
        **APPOINTMENT,
        "way": {"key": "phone", "value": "On the phone"},
        "people": 1,
        "reminder": False,
    }


def test_form_is_filled_in_by_a_chat_message(loop: LocalLoop, model: ScriptedModel) -> None:
    waiting(model, ("ask_form", {"purpose": "A talk"}), session="fill in by chat", agent="asker")
    with pytest.raises(InvalidAnswer) as refused:
        chat("Ann", "asker", session_id="fill in by chat")
    assert refused.value.param == "messages"
    reply = chat(json.dumps(APPOINTMENT), "asker", session_id="fill in by chat")
    assert reply["stepagent"]["status"] == "completed"


def test_detail_events_show_a_choice_and_the_result_bears_the_id_of_its_call(
    loop: LocalLoop, model: ScriptedModel, api: httpx.Client
) -> None:
    model.script_for("in detail", Reply(calls=(("ask_plan", {"who": "Ann"}),)), Reply(text="Good."))
    asked = _stream(api, "in detail")
    [shown] = [data["interactive"] for name, data in asked if name == "interactive"]
    assert (shown["type"], shown["params"]["userSelectOptions"][0]) == ("userSelect", {"key": "s", "value": "Small"})
    [called] = [data["tool"]["id"] for name, data in asked if name == "toolCall"]
    answered = _stream(api, "s")
    assert [data["tool"] for name, data in answered if name == "toolResponse"] == [
        {"id": called, "response": "Small (key: s)", "isError": False}
    ]


def _stream(api: httpx.Client, text: str) -> list[tuple[str, Any]]:
    """The named events of a request in one session."""
    messages = [{"role": "user", "content": text}]
    body = {"model": "asker", "messages": messages, "session_id": "detail", "stream": True, "detail": True}
    lines = api.post("/chat/completions", json=body).text.splitlines()
    named = [(name[7:], data[6:]) for name, data in itertools.pairwise(lines) if name.startswith("event: ")]
    return [(name, json.loads(data)) for name, data in named]


# ---- listed and read


def test_owner_lists_and_reads_what_waits_and_nobody_else_does(
    loop: LocalLoop, model: ScriptedModel, api: httpx.Client
) -> None:
    model.script_for("list it", Reply(calls=(ASK,)), Reply(text="Good."))
    body = {"model": "prober", "messages": [{"role": "user", "content": "list it"}]}
    standing = api.post("/chat/completions", json=body).json()["stepagent"]
    question = standing["interactions"][0]["interaction_id"]
    listed = api.get("/interactions", params={"status": "pending"}).json()["data"]
    assert question in [each["interaction_id"] for each in listed]
    read = api.get(f"/interactions/{question}").json()
    assert (read["status"], read["text"], read["history"][0]["status"]) == ("pending", "Which colour?", "pending")
    other = {"Authorization": "Bearer other-key"}
    assert httpx.get(f"{loop.stack.api_url}/interactions/{question}", headers=other).status_code == 404
    nothing = {"object": "list", "data": [], "has_more": False, "next": None}
    assert httpx.get(f"{loop.stack.api_url}/interactions", headers=other).json() == nothing
    api.post(f"/interactions/{question}", json={"answer": "blue"})
    loop.wait_end(RunId(standing["run_id"]))
    listed = api.get("/interactions").json()["data"]
    assert question not in [each["interaction_id"] for each in listed]
    assert [change["status"] for change in api.get(f"/interactions/{question}").json()["history"]] == [
        "pending",
        "answered",
    ]


def test_only_what_waits_can_be_listed(api: httpx.Client) -> None:
    reply = api.get("/interactions", params={"status": "answered"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "status")


# ---- agents that were called by other agents


def test_questions_behind_one_call_are_asked_at_the_top_one_after_the_other(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script_for("ask twice", Reply(calls=(ASK, ("ask_user", {"question": "Which size?"}))), Reply(text="Both."))
    model.script_for("have both asked", Reply(calls=(("consult", {"task": "ask twice"}),)), Reply(text="Thanks."))
    standing = chat("have both asked", "manager", session_id="both")["stepagent"]
    while len(standing["interactions"]) < 2:  # the second one may be asked a moment later
        standing = read_waiting(standing["run_id"])
    run_id = RunId(standing["run_id"])
    assert {asked["call_id"] for asked in standing["interactions"]} == {"call_1_1_0"}
    first = chat("blue", "manager", session_id="both")["stepagent"]
    assert (first["run_id"], first["status"]) == (run_id, "waiting")
    assert chat("small", "manager", session_id="both")["stepagent"]["status"] == "completed"
    assert (read_run(run_id, ME).answer, results_of(read_run(run_id, ME))) == ("Thanks.", ["Both."])


def read_waiting(run_id: str) -> dict[str, Any]:
    asked = [event.data for event in read_events(RunId(run_id), 0) if event.type == "interaction.required"]
    return {"run_id": run_id, "interactions": asked}


def test_question_two_agents_below_is_asked_at_the_top_and_closed_when_that_is_cancelled(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script_for("ask deep", Reply(calls=(ASK,)), Reply(text="never said"))
    model.script_for("go down", Reply(calls=(("consult", {"task": "ask deep"}),)), Reply(text="never said"))
    model.script_for("go far", Reply(calls=(("manage", {"task": "go down"}),)), Reply(text="never said"))
    standing = chat("go far", "manager", session_id="far")["stepagent"]
    [asked] = standing["interactions"]
    assert (asked["run_id"], asked["call_id"]) == (standing["run_id"], "call_1_1_0")
    cancel_run(standing["run_id"])
    found = read_interaction(asked["interaction_id"], ME)
    assert (found.status, require_run(found.run_id).pending) == ("cancelled", ())
    with pytest.raises(Expired):
        answer(asked["interaction_id"], ME, "blue")


# ---- secrets


def test_task_token_leaves_the_server_in_no_event_and_no_reply(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("paint secret", Reply(calls=(ASK,)))
    reply = chat("paint secret", session_id="secret", detail=True)
    question = reply["stepagent"]["interactions"][0]["interaction_id"]
    stored = dynamodb().get_item(TableName=loop.stack.record_table, Key=question_key(question))["Item"]
    events = dynamodb().scan(TableName=loop.stack.journal_table)["Items"]
    [token] = stored["task_tokens"]["SS"]
    assert token not in json.dumps([reply, events], default=str)
