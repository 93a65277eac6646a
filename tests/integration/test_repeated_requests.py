"""Requests with an idempotency key, over HTTP and at the record: one run, however often and however close they come."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest

from stepagent.clock import now
from stepagent.errors import RecordConflict
from stepagent.runs import RunId
from stepagent.store import idempotency as subject
from stepagent.store.idempotency import Begun, IdempotencyKey, Standing, find_begun, note_begun
from tests.builders import OWNER
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

Json = dict[str, Any]


def ask(api: httpx.Client, text: str, key: str, **fields: Any) -> httpx.Response:
    body = {"model": "assistant", "messages": [{"role": "user", "content": text}], **fields}
    return api.post("/chat/completions", json=body, headers={"Idempotency-Key": key})


def test_answer_is_the_first_ones_when_the_request_comes_again(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(Reply(text="Once."))
    first, second = (ask(api, "Hi", "again").json() for _ in range(2))
    assert (second["id"], second["choices"]) == (first["id"], first["choices"])
    assert len(model.requests) == 1


def test_one_run_begins_when_requests_come_at_once(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(Reply(text="Once.", first_delay_s=0.5))
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: ask(api, "Hi", "at-once"), range(4)))
    assert [reply.status_code for reply in replies] == [200] * 4
    assert len({reply.json()["id"] for reply in replies}) == 1
    assert len(model.requests) == 1


def test_stream_is_joined_from_its_beginning_when_the_request_comes_again(
    api: httpx.Client, model: ScriptedModel
) -> None:
    model.script(Reply(text="Once upon a time."))
    first, second = (ask(api, "Hi", "streamed", stream=True).text for _ in range(2))
    assert '"content":"Once' in second
    assert first.endswith("data: [DONE]\n\n")
    assert second.endswith("data: [DONE]\n\n")


def test_key_is_refused_when_it_comes_with_another_body(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(Reply(text="Once."))
    ask(api, "Hi", "other-body")
    reply = ask(api, "Ho", "other-body")
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "idempotency_key_reused")


def test_key_is_refused_when_it_is_empty(api: httpx.Client) -> None:
    reply = ask(api, "Hi", "")
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "Idempotency-Key")


def test_answer_of_a_person_is_given_once_when_it_comes_again(api: httpx.Client, model: ScriptedModel) -> None:
    questions = [Reply(calls=(("ask_user", {"question": question}),)) for question in ("A?", "B?")]
    model.script(*questions, Reply(text="Thanks."))
    ask(api, "Ask me", "begin", session_id="asked-twice")
    first, second = (ask(api, "yes", "first-answer", session_id="asked-twice").json() for _ in range(2))
    assert [reply["choices"][0]["message"]["content"] for reply in (first, second)] == ["B?", "B?"]
    assert ask(api, "no", "second-answer", session_id="asked-twice").json()["stepagent"]["status"] == "completed"


@pytest.fixture
def key(loop: LocalLoop, request: pytest.FixtureRequest) -> IdempotencyKey:
    return IdempotencyKey("request", OWNER, request.node.name, "d1", timedelta(days=1))


def test_key_holds_what_was_begun_with_it_until_its_time_is_over(
    key: IdempotencyKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Begun(RunId("run_a_1"), 3)
    note_begun(key, begun)
    assert find_begun(key) == Standing(begun, "d1")
    with pytest.raises(RecordConflict):
        note_begun(key, begun)
    later = now() + timedelta(days=1, seconds=1)
    monkeypatch.setattr(subject, "now", lambda: later)
    assert find_begun(key) is None
    note_begun(key, Begun(RunId("run_a_2")))
    assert find_begun(key) == Standing(Begun(RunId("run_a_2")), "d1")
