"""Two who use one deployment: nothing of one can be read, changed or met by the other."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from stepagent.api.beginning import session_key_of
from stepagent.api.service import read_run, say
from stepagent.delegation import sub_run_of
from stepagent.runs import CallKey, Principal, RunKey
from tests.integration.runs import question, wait_for_event
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

OTHER = Principal("other")


@pytest.fixture
def stranger(loop: LocalLoop) -> Iterator[httpx.Client]:
    """A client with another key, without scopes."""
    headers = {"Authorization": "Bearer other-key"}
    with httpx.Client(base_url=loop.stack.api_url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


def chat(client: httpx.Client, text: str, model: str, headers: Any = None, **fields: Any) -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    return client.post("/chat/completions", json=body, headers=headers).json()


@pytest.fixture
def waiting(api: httpx.Client, loop: LocalLoop, model: ScriptedModel) -> Any:
    """A run of the owner that waits with a question which an agent below asks."""
    model.default = Reply(text="Hello.")
    model.script_for("ask through this", Reply(calls=(("consult", {"task": "ask below"}),)), Reply(text="Thanks."))
    model.script_for("ask below", Reply(calls=(("ask_user", {"question": "Which?"}),)), Reply(text="So be it."))
    standing = chat(api, "ask through this", "manager", session_id="shared name")["stepagent"]
    yield standing
    api.post(f"/runs/{standing['run_id']}/cancel")


def child_of(run_id: str) -> str:
    return sub_run_of(RunKey.parse(run_id), CallKey(RunKey.parse(run_id).ordinal, 1, 0))


def test_stranger_finds_neither_run_nor_question_nor_the_run_of_an_agent_below(
    api: httpx.Client, stranger: httpx.Client, waiting: Any
) -> None:
    run_id, [question] = waiting["run_id"], waiting["interactions"]
    paths = [f"/runs/{run_id}", f"/runs/{child_of(run_id)}", f"/interactions/{question['interaction_id']}"]
    assert [api.get(path).status_code for path in paths] == [200, 200, 200]
    assert [stranger.get(path).status_code for path in paths] == [404, 404, 404]
    assert stranger.get("/interactions").json()["data"] == []


def test_refusal_is_the_same_whether_or_not_there_is_such_a_run(stranger: httpx.Client, waiting: Any) -> None:
    run_id = waiting["run_id"]
    nowhere = run_id[:-1] + "9"
    there, not_there = (stranger.get(f"/runs/{each}").text.replace(each, "") for each in (run_id, nowhere))
    assert there == not_there


def test_stranger_can_neither_answer_nor_cancel(api: httpx.Client, stranger: httpx.Client, waiting: Any) -> None:
    run_id, [question] = waiting["run_id"], waiting["interactions"]
    answered = stranger.post(f"/interactions/{question['interaction_id']}", json={"answer": "mine"})
    cancelled = [stranger.post(f"/runs/{each}/cancel") for each in (run_id, child_of(run_id))]
    assert [answered.status_code, *(each.status_code for each in cancelled)] == [404, 404, 404]
    assert api.get(f"/runs/{run_id}").json()["status"] == "waiting"


def test_session_of_the_same_name_is_another_one(
    api: httpx.Client, loop: LocalLoop, model: ScriptedModel, waiting: Any
) -> None:
    run = say(question("the blue one", session_id="shared name"), OTHER).run
    loop.wait_end(run.run_id)
    assert read_run(run.run_id, OTHER).answer == "Hello."
    assert "ask through this" not in str(model.requests[-1])
    assert api.get(f"/runs/{waiting['run_id']}").json()["status"] == "waiting"


def test_idempotency_key_of_the_same_name_is_another_one(loop: LocalLoop, model: ScriptedModel) -> None:
    model.default = Reply(text="Hello.")
    mine, theirs = (say(question("once"), who, "shared key").run for who in (Principal("local"), OTHER))
    assert (mine.run_id == theirs.run_id, theirs.owner) == (False, OTHER)
    loop.wait_end(mine.run_id)
    loop.wait_end(theirs.run_id)


@pytest.mark.parametrize("name", ["{run_id}/call_1_1_0", "{run_id}", "{child_id}", "0", "run_0_1"])
def test_no_session_of_a_person_is_that_of_an_agent_below(
    api: httpx.Client, model: ScriptedModel, waiting: Any, name: str
) -> None:
    child_id = child_of(waiting["run_id"])
    session_id = name.format(run_id=waiting["run_id"], child_id=child_id)
    reply = chat(api, "the green one", "prober", session_id=session_id)
    assert reply["choices"][0]["message"]["content"] == "Hello."
    assert session_key_of(Principal("local"), session_id) != RunKey.parse(child_id).session
    assert api.get(f"/runs/{child_id}").json()["status"] == "waiting"


def test_owner_who_cancels_the_agent_below_lets_the_run_above_go_on(
    api: httpx.Client, loop: LocalLoop, waiting: Any
) -> None:
    assert api.post(f"/runs/{child_of(waiting['run_id'])}/cancel").json()["status"] == "cancelled"
    wait_for_event(waiting["run_id"], "run.completed")
    run = api.get(f"/runs/{waiting['run_id']}").json()
    assert (run["status"], run["answer"], run["interactions"]) == ("completed", "Thanks.", [])


@pytest.mark.parametrize("path", ["/agents/assistant", "/tools/probe", "/tools/read_result"])
def test_stranger_without_the_scope_changes_no_row_and_reads_no_terms(stranger: httpx.Client, path: str) -> None:
    shown = stranger.get(path).json()
    assert not {"row", "version", "changed_by", "target", "bound"} & set(shown)
    assert (stranger.put(path, json={}).status_code, stranger.delete(path).status_code) == (403, 403)
