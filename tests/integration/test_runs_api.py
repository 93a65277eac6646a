"""Runs and their events over HTTP, as clients begin, list and follow them."""

import random
import re
import time
from typing import Any

import httpx
import pytest

from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

Json = dict[str, Any]
SUM = Reply(calls=(("calculator", {"expression": "17*23"}),))
_EVENT = re.compile(rb"id: (\d+)\nevent: [^\n]*\ndata: [^\n]*\n\n")


def start(api: httpx.Client, text: str, key: str = "", **fields: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return api.post("/runs", json={"agent": "assistant", "input": text, **fields}, headers=headers)


def wait_for(api: httpx.Client, run_id: str, *statuses: str) -> Json:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        run: Json = api.get(f"/runs/{run_id}").json()
        if run["status"] in statuses:
            return run
        time.sleep(0.05)
    raise TimeoutError(run_id)


def events(api: httpx.Client, run_id: str, after: int = 0, at_most: int | None = None) -> bytes:
    """The complete events of one connection, which is cut after so many bytes."""
    content = b""
    with api.stream("GET", f"/runs/{run_id}/events", headers={"Last-Event-ID": str(after)}) as stream:
        assert stream.status_code in (200, 204)
        for part in stream.iter_raw():
            content += part
            if at_most is not None and len(content) >= at_most:
                content = content[:at_most]
                break
    return b"".join(match[0] for match in _EVENT.finditer(content))


def last_id(content: bytes) -> int:
    ids = [int(match[1]) for match in _EVENT.finditer(content)]
    return ids[-1] if ids else 0


def test_run_is_begun_at_once_and_found_where_the_reply_says(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391.", first_delay_s=1))
    reply = start(api, "What is 17*23?", metadata={"ticket": "7"})
    run = reply.json()
    assert (reply.status_code, reply.headers["location"]) == (202, f"/v1/runs/{run['run_id']}")
    assert (run["status"], run["metadata"]) == ("running", {"ticket": "7"})
    assert wait_for(api, run["run_id"], "completed")["answer"] == "It is 391."


def test_run_is_begun_once_when_the_request_comes_again(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(Reply(text="Once."))
    first, second = (start(api, "Hi", key="run-again").json()["run_id"] for _ in range(2))
    assert first == second
    wait_for(api, first, "completed")
    assert start(api, "Ho", key="run-again").status_code == 422


def test_run_answers_no_question(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("paint a run", Reply(calls=(("ask_user", {"question": "Which colour?"}),)), Reply(text="Done."))
    first = start(api, "paint a run", session_id="runs-waiting").json()["run_id"]
    wait_for(api, first, "waiting")
    busy = start(api, "blue", session_id="runs-waiting")
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")
    session = api.get("/sessions/runs-waiting").json()
    assert (session["active_run"], len(session["interactions"])) == (first, 1)
    api.post(f"/interactions/{session['interactions'][0]['interaction_id']}", json={"answer": "blue"})
    wait_for(api, first, "completed")


def test_runs_are_listed_and_their_conversation_read(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."), Reply(text="Again."))
    first = start(api, "What is 17*23?", session_id="runs listed").json()["run_id"]
    wait_for(api, first, "completed")
    second = start(api, "And now?", session_id="runs listed").json()["run_id"]
    wait_for(api, second, "completed")
    page = api.get("/runs", params={"session_id": "runs listed", "limit": 1}).json()
    rest = api.get("/runs", params={"session_id": "runs listed", "after": page["next"]}).json()
    assert [run["run_id"] for run in page["data"] + rest["data"]] == [second, first]
    assert api.get("/runs", params={"limit": 1, "status": "completed"}).json()["data"][0]["run_id"] == second
    assert [run["run_id"] for run in api.get("/sessions/runs%20listed").json()["runs"]] == [second, first]
    said = api.get(f"/runs/{first}/messages").json()["data"]
    assert [(entry["type"], entry.get("role")) for entry in said] == [
        *[("message", "user"), ("message", "assistant"), ("call", None), ("message", "assistant")]
    ]
    assert said[2]["result"]["text"] == "391"


@pytest.mark.parametrize("path", ["/runs/{}", "/runs/{}/messages", "/runs/{}/events", "/responses/resp_{}"])
def test_run_of_another_caller_is_404(api: httpx.Client, loop: LocalLoop, model: ScriptedModel, path: str) -> None:
    model.script(Reply(text="Theirs."))
    theirs = {"Authorization": "Bearer other-key"}
    body = {"agent": "assistant", "input": "Hi"}
    run_id = httpx.post(f"{loop.stack.api_url}/runs", headers=theirs, json=body, timeout=30).json()["run_id"]
    loop.wait_end(run_id)
    assert api.get(path.format(run_id)).status_code == 404
    assert run_id not in api.get("/runs", params={"limit": 100}).text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs?limit=0", 400),
        ("/runs?nothing=1", 400),
        ("/runs?after=run_abc_1", 404),
        ("/sessions/none", 404),
        ("/responses/none", 404),
        ("/responses/resp_run_abc_1", 404),
        ("/runs/run_abc_1/events", 404),
    ],
)
def test_request_is_refused_with_a_reason_when_it_is_wrong(api: httpx.Client, path: str, status: int) -> None:
    reply = api.get(path)
    assert (reply.status_code, set(reply.json()["error"])) == (status, {"message", "type", "param", "code"})


def test_events_are_byte_equal_when_connections_are_cut_at_twenty_places_while_the_run_goes_on(
    api: httpx.Client, model: ScriptedModel
) -> None:
    model.script(SUM, Reply(text="word " * 200, chunk_chars=25, delay_s_per_chunk=0.05))
    run_id = start(api, "Tell me").json()["run_id"]
    chance, read, cuts = random.Random(20), b"", 0
    while cuts < 20:
        read += events(api, run_id, last_id(read), chance.randrange(1, 700))
        cuts += 1
    read += events(api, run_id, last_id(read))
    assert read == events(api, run_id)
    assert b"event: run.completed" in read
    assert api.get(f"/runs/{run_id}/events", params={"after": last_id(read)}).status_code == 204


def test_events_go_on_behind_a_question_on_the_same_connection(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("paint live", Reply(calls=(("ask_user", {"question": "Which colour?"}),)), Reply(text="Blue."))
    run_id = start(api, "paint live").json()["run_id"]
    types: list[str] = []
    with api.stream("GET", f"/runs/{run_id}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                types.append(line.removeprefix("event: "))
            if line == "event: interaction.required":
                question = wait_for(api, run_id, "waiting")["interactions"][0]
                api.post(f"/interactions/{question}", json={"answer": "blue"})
    assert types.index("interaction.required") < types.index("interaction.resolved") < types.index("run.completed")
