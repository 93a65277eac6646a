"""Calls that a person must approve: nothing runs before, and what runs is what was approved."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from stepagent.answering import answer
from stepagent.api.service import read_run
from stepagent.approvals import digest_of
from stepagent.cancelling import cancel_run
from stepagent.errors import Conflict, Expired
from stepagent.runs import InteractionId, RunId
from stepagent.store.clients import dynamodb
from stepagent.store.items import call_key, marshal
from tests.integration.runs import ME, calls_of, chat, events_of, probe, results_of, wait_for_event
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

SEND = ("guarded", {"action": "echo", "value": "sent"})


def waiting(
    model: ScriptedModel, question: str, *calls: Any, agent: str = "asker"
) -> tuple[RunId, list[InteractionId]]:
    """A run that waits for approval; its id and its questions' ids."""
    model.script_for(question, Reply(calls=calls or (SEND,)), Reply(text="Done."))
    standing = chat(question, agent, session_id=question)["stepagent"]
    assert standing["status"] == "waiting"
    asked = sorted(standing["interactions"], key=lambda each: str(each["call_id"]))
    return RunId(standing["run_id"]), [InteractionId(each["interaction_id"]) for each in asked]


def test_person_is_shown_the_call_before_it_runs(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script_for("show the call", Reply(calls=(SEND,)))
    reply = chat("show the call", "asker", session_id="show the call")
    [asked] = reply["stepagent"]["interactions"]
    assert (asked["type"], asked["tool"], asked["arguments"], asked["bound"]) == ("approval", *SEND, {"number": 1})
    assert asked["digest"] == digest_of({**SEND[1], "number": 1})
    assert '"value": "sent"' in reply["choices"][0]["message"]["content"]
    assert probed.read_text() == ""


def test_call_runs_once_when_it_is_approved(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    run_id, (question,) = waiting(model, "approve it")
    answer(question, ME, {"decision": "approve"})
    loop.wait_end(run_id)
    assert (results_of(read_run(run_id, ME)), probed.read_text()) == (["sent"], "echo sent\n")
    assert read_run(run_id, ME).answer == "Done."


def test_call_runs_with_the_persons_arguments_when_it_is_edited(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    run_id, (question,) = waiting(model, "edit it")
    answer(question, ME, {"decision": "edit", "arguments": {"action": "echo", "value": "other"}})
    loop.wait_end(run_id)
    assert (results_of(read_run(run_id, ME)), probed.read_text()) == (["other"], "echo other\n")


def test_model_reads_the_reason_when_a_call_is_rejected(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    run_id, (question,) = waiting(model, "reject it")
    answer(question, ME, {"decision": "reject", "reason": "not today"})
    loop.wait_end(run_id)
    assert "not today" in model.requests[-1]["messages"][-1]["content"]
    assert probed.read_text() == ""


def test_call_is_decided_by_a_chat_message(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    waiting(model, "approve by chat")
    assert chat("approve", "asker", session_id="approve by chat")["choices"][0]["message"]["content"] == "Done."
    assert probed.read_text() == "echo sent\n"


def test_call_is_not_run_when_nobody_approved_in_time(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    run_id, (question,) = waiting(model, "hurry up", ("guarded_soon", {"action": "echo", "value": "x"}))
    loop.wait_end(run_id)
    run = read_run(run_id, ME)
    assert (results_of(run), run.pending, probed.read_text()) == (
        ["Nobody approved in time, so it was not run."],
        (),
        "",
    )
    with pytest.raises(Expired):
        answer(question, ME, "approve")


def test_only_calls_with_those_arguments_are_asked_for(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    cheap, dear = (("guarded_when", {"action": "echo", "value": value}) for value in ("cheap", "dear"))
    run_id, (question,) = waiting(model, "buy both", cheap, dear)
    wait_for_event(run_id, "tool.completed")
    assert probed.read_text() == "echo cheap\n"
    answer(question, ME, "approve")
    loop.wait_end(run_id)
    assert results_of(read_run(run_id, ME)) == ["cheap", "dear"]


def test_other_calls_of_the_turn_run_while_a_person_is_asked(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    run_id, (question,) = waiting(model, "mix them", probe("echo", "a"), SEND, probe("echo", "b"))
    answer(question, ME, "no: never")
    loop.wait_end(run_id)
    first, second, third = results_of(read_run(run_id, ME))
    assert (first, "never" in second, third) == ("a", True, "b")
    assert sorted(probed.read_text().splitlines()) == ["echo a", "echo b"]


def test_each_call_of_a_turn_is_decided_alone(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    other = ("guarded", {"action": "echo", "value": "other"})
    run_id, (first, second) = waiting(model, "decide both", SEND, other)
    answer(second, ME, "approve")
    answer(first, ME, "reject")
    loop.wait_end(run_id)
    assert [call.result.is_error for call in calls_of(read_run(run_id, ME)) if call.result] == [True, False]
    assert probed.read_text() == "echo other\n"


def test_decision_is_a_conflict_when_there_is_another_one(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    run_id, (question,) = waiting(model, "decide twice")
    answer(question, ME, "approve")
    with pytest.raises(Conflict):
        answer(question, ME, "reject")
    loop.wait_end(run_id)
    assert answer(question, ME, "approve").status == "answered"
    assert probed.read_text() == "echo sent\n"


def test_call_is_not_run_when_its_arguments_change_behind_the_approval(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    run_id, (question,) = waiting(model, "swap them")
    run = read_run(run_id, ME)
    [call] = calls_of(run)
    dynamodb().update_item(
        TableName=loop.stack.record_table,
        Key=call_key(run.key.session, call.key),
        UpdateExpression="SET edited_arguments = :other",
        ExpressionAttributeValues=marshal({":other": '{"action": "echo", "value": "swapped"}'}),
    )
    answer(question, ME, "approve")
    loop.wait_end(run_id)
    assert ("nobody approved" in results_of(read_run(run_id, ME))[0], probed.read_text()) == (True, "")


def test_failure_is_the_tools_when_an_approved_call_dies(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    run_id, (question,) = waiting(model, "let it die", ("guarded", {"action": "exit"}))
    answer(question, ME, "approve")
    loop.wait_end(run_id)
    assert "Its effects are unknown" in results_of(read_run(run_id, ME))[0]


def test_agent_is_asked_when_the_call_of_it_is_approved(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script_for("guarded task", Reply(text="The agent's answer."))
    run_id, (question,) = waiting(model, "approve an agent", ("consult_guarded", {"task": "guarded task"}))
    answer(question, ME, "approve")
    loop.wait_end(run_id)
    assert results_of(read_run(run_id, ME)) == ["The agent's answer."]


def test_call_of_an_agent_below_is_approved_at_the_top(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script_for("send through", Reply(calls=(SEND,)), Reply(text="The agent sent it."))
    run_id, _ = waiting(model, "have it sent", ("consult", {"task": "send through"}), agent="manager")
    assert chat("approve", "manager", session_id="have it sent")["stepagent"]["run_id"] == run_id
    assert (results_of(read_run(run_id, ME)), probed.read_text()) == (["The agent sent it."], "echo sent\n")


def test_call_never_runs_when_its_run_is_cancelled_before_the_approval(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    run_id, (question,) = waiting(model, "cancel before")
    cancel_run(run_id)
    with pytest.raises(Expired):
        answer(question, ME, "approve")
    assert (results_of(read_run(run_id, ME))[0].startswith("Not run"), probed.read_text()) == (True, "")


def test_call_is_approved_over_http_and_a_wrong_decision_names_its_field(
    loop: LocalLoop, api: httpx.Client, model: ScriptedModel, probed: Path
) -> None:
    model.script_for("over http", Reply(calls=(SEND,)), Reply(text="Done."))
    body = {"model": "asker", "messages": [{"role": "user", "content": "over http"}]}
    waiting = api.post("/chat/completions", json=body).json()["stepagent"]
    path = f"/interactions/{waiting['interactions'][0]['interaction_id']}"
    wrong: list[Any] = [{"decision": "edit", "arguments": {"action": 7}}, {"decision": "later"}, "perhaps"]
    params = [api.post(path, json={"answer": answer}).json()["error"]["param"] for answer in wrong]
    assert params == ["answer.arguments.action", "answer.decision", "answer"]
    assert api.post(path, json={"answer": {"decision": "approve"}}).status_code == 200
    loop.wait_end(RunId(waiting["run_id"]))
    assert probed.read_text() == "echo sent\n"


def test_followers_are_told_of_the_decision_before_the_tool_begins(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    run_id, (question,) = waiting(model, "in this order")
    answer(question, ME, "approve")
    loop.wait_end(run_id)
    told = [event for event in events_of(run_id) if event.startswith(("interaction", "tool"))]
    assert told == ["interaction.required", "interaction.resolved", "tool.started", "tool.completed"]
