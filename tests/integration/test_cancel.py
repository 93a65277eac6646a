"""Cancelling a run: what did not begin never does, what began says so, and nobody who follows hangs."""

import time
from pathlib import Path

import httpx
import pytest

from stepagent.answering import answer
from stepagent.api.service import read_run
from stepagent.cancelling import cancel_run
from stepagent.delegation import sub_run_of
from stepagent.errors import Expired, NotFound
from stepagent.runs import RunId
from stepagent.store.runs import require_run
from tests.integration.runs import ME, begin, calls_of, chat_of, events_of, finish, probe, results_of, wait_for_event
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel


def ends_of(run_id: RunId) -> list[str]:
    return [event for event in events_of(run_id) if event.startswith("run.")]


def test_call_that_began_says_so_and_one_that_did_not_never_runs(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    calls = (probe("sleep", "first", 1.5), probe("echo", "second"), probe("echo", "third"))
    model.script(Reply(calls=calls), Reply(text="never said"))
    following = begin("cancel the batch", "serial")
    wait_for_event(following.run.run_id, "tool.started")
    run = cancel_run(following.run.run_id)
    assert (run.status, run.stop_reason) == ("cancelled", "cancelled")
    time.sleep(2)
    first, *others = results_of(run)
    assert "Its effects are unknown" in first
    assert [text.startswith("Not run") for text in others] == [True, True]
    assert probed.read_text() == "sleep first\n"
    assert ends_of(run.run_id) == ["run.started", "run.cancelled"]


def test_followers_are_told_when_a_run_is_cancelled(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script(Reply(calls=(probe("sleep", "", 1),)), Reply(text="never said"))
    following = begin("cancel me")
    cancel_run(following.run.run_id)
    assert chat_of(following)["error"]["code"] == "cancelled"


def test_session_takes_another_question_when_its_run_was_cancelled(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script_for("cancel this", Reply(calls=(probe("sleep", "", 1),)), Reply(text="never said"))
    model.script_for("another one", Reply(text="Here I am."))
    cancel_run(begin("cancel this", session_id="again").run.run_id)
    assert finish(loop, "another one", session_id="again").answer == "Here I am."


def test_question_of_a_cancelled_run_cannot_be_answered(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("ask and cancel", Reply(calls=(("ask_user", {"question": "Which?"}),)))
    run_id = begin("ask and cancel").run.run_id
    wait_for_event(run_id, "interaction.required")
    [question] = read_run(run_id, ME).pending
    run = cancel_run(run_id)
    assert "before a person answered" in results_of(run)[0]
    with pytest.raises(Expired):
        answer(question, ME, "this one")


def test_run_of_an_agent_is_cancelled_with_the_run_that_asked_it(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script_for("delegate and cancel", Reply(calls=(("helper", {"task": "sleep long"}),)))
    model.script_for("sleep long", Reply(calls=(probe("sleep", "", 1.5),)), Reply(text="never said"))
    run_id = begin("delegate and cancel", "delegator").run.run_id
    wait_for_event(run_id, "tool.started")
    child = sub_run_of(require_run(run_id).key, calls_of(require_run(run_id))[0].key)
    wait_for_event(child, "tool.started")
    cancel_run(run_id)
    assert require_run(child).status == "cancelled"


def test_cancelling_twice_and_cancelling_what_has_ended_change_nothing(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(text="Done."))
    run = finish(loop, "end first")
    assert cancel_run(run.run_id).status == "completed"
    assert ends_of(run.run_id) == ["run.started", "run.completed"]


def test_run_is_cancelled_by_its_owner_through_the_api(
    loop: LocalLoop, model: ScriptedModel, probed: Path, api: httpx.Client
) -> None:
    model.script(Reply(calls=(probe("sleep", "", 1.8),)), Reply(text="never said"))
    body = {"model": "prober", "messages": [{"role": "user", "content": "through the api"}], "stream": True}
    with api.stream("POST", "/chat/completions", json=body) as stream:
        run_id = stream.headers["x-stepagent-run-id"]
        other = {"Authorization": "Bearer other-key"}
        cancelled = api.post(f"/runs/{run_id}/cancel")
        foreign = httpx.post(f"{loop.stack.api_url}/runs/{run_id}/cancel", headers=other)
        assert stream.read().endswith(b"data: [DONE]\n\n")
    assert (foreign.status_code, cancelled.status_code) == (404, 200)
    assert cancelled.json()["status"] == "cancelled"


def test_unknown_run_cannot_be_cancelled(loop: LocalLoop) -> None:
    with pytest.raises(NotFound):
        cancel_run("run_abc_1")
