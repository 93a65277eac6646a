"""Requests that come again: what is the same, what is joined, and what is refused."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import httpx
import pytest

from stepagent.api import beginning, service, shapes
from stepagent.api import idempotency as subject
from stepagent.api.beginning import Following
from stepagent.api.idempotency import request_key
from stepagent.api.requests import ChatRequest, read_chat_request, read_idempotency_key
from stepagent.api.service import join_job, say, start_job
from stepagent.catalog import FoundAgent
from stepagent.errors import Conflict, IdempotencyKeyReused, InvalidRequest, RecordConflict
from stepagent.executions import LOST
from stepagent.messages import Message
from stepagent.runs import InteractionId, Principal, Run, RunId, RunKey, RunStatus, SessionKey
from stepagent.spending import UsedKey
from stepagent.store.idempotency import Begun, IdempotencyKey, Standing
from stepagent.store.runs import Session
from tests.builders import OWNER, RUN_ID, a_run
from tests.functions import load

Json = dict[str, Any]
BODY: Json = {"model": "helper", "messages": [{"role": "user", "content": "Hi"}]}


def request_for(**changes: Any) -> ChatRequest:
    return read_chat_request(json.dumps(BODY | changes).encode())


class Record:
    """Runs and keys, and what was done to them. Stands for `store` and for Step Functions."""

    def __init__(self) -> None:
        self.standing: dict[str, Standing] = {}
        self.runs: list[Run] = []
        self.started: list[RunId] = []
        self.cannot_start = False
        self.closed: list[tuple[RunId, str]] = []
        self.answers: list[tuple[str, str]] = []
        self.beforehand: Callable[[], None] = lambda: None

    def find_begun(self, key: IdempotencyKey) -> Standing | None:
        return self.standing.get(key.hashed)

    def note_begun(self, key: IdempotencyKey, begun: Begun) -> None:
        if key.hashed in self.standing:
            raise RecordConflict("taken")
        self.standing[key.hashed] = Standing(begun, key.digest)

    def load_session(self, session: SessionKey) -> Session:
        runs = [run for run in self.runs if run.key.session == session]
        found = Session(len(runs), runs[-1].key if runs else None)
        self.beforehand()  # somebody else comes between the reading and the writing
        return found

    def create_run(self, run: Run, messages: list[Message], key: IdempotencyKey | None = None) -> None:
        if key and key.hashed in self.standing:
            raise RecordConflict("taken")
        self.runs.append(run)
        if key:
            self.note_begun(key, Begun(run.run_id))

    def require_run(self, run_id: str) -> Run:
        return next(run for run in self.runs if run.run_id == run_id)

    def load_run(self, key: RunKey) -> Run:
        return self.require_run(key.run_id)

    def start_execution(self, run: Run) -> bool:
        if self.cannot_start:
            raise ConnectionError("Step Functions does not answer.")
        self.started.append(run.run_id)
        return True

    def finalize(self, run_id: RunId, error: str) -> None:
        self.closed.append((run_id, error))

    def answer(self, question: str, owner: Principal, text: str) -> None:
        self.answers.append((question, text))


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Record:
    made = Record()

    def found(name: str) -> FoundAgent:
        return FoundAgent(a_run().agent, a_run().tools, {})

    for module in (subject, service, beginning):
        for name in set(dir(Record)) & set(vars(module)):
            monkeypatch.setattr(module, name, getattr(made, name))
    monkeypatch.setattr(beginning, "find_agent", found)
    monkeypatch.setattr(beginning, "ensure_execution", lambda run: run)
    monkeypatch.setattr(beginning, "last_event", lambda run_id: None)
    return made


def test_second_request_joins_the_first_ones_run_when_the_key_is_the_same(record: Record) -> None:
    runs = {say(request_for(), OWNER, "k").run.run_id for _ in range(2)}
    assert len(runs) == len(record.runs) == 1


@pytest.mark.parametrize("session", [{}, {"session_id": "s"}])
def test_second_request_joins_the_first_ones_run_when_both_came_at_once(record: Record, session: Json) -> None:
    def first() -> None:
        record.beforehand = lambda: None
        say(request_for(**session), OWNER, "k")

    record.beforehand = first
    joined = say(request_for(**session), OWNER, "k")
    assert [joined.run.run_id] == [run.run_id for run in record.runs]


def test_second_request_starts_a_run_when_it_has_another_key_or_none(record: Record) -> None:
    for key in ("k", "l", "", ""):
        say(request_for(), OWNER, key)
    assert len(record.runs) == 4


def test_second_request_starts_a_run_when_the_key_is_another_principals(record: Record) -> None:
    for owner in (OWNER, Principal("bob")):
        say(request_for(), owner, "k")
    assert [run.owner for run in record.runs] == [OWNER, "bob"]


def test_job_starts_a_run_when_a_request_has_its_id_as_key(record: Record) -> None:
    say(request_for(), OWNER, "k")
    start_job(request_for(), OWNER, "k")
    assert len(record.runs) == 2


def test_job_is_joined_whatever_it_said_when_it_was_begun(record: Record) -> None:
    run = start_job(request_for(), OWNER, "j")
    record.started.clear()
    assert join_job(OWNER, "j") == run
    assert record.started == [run.run_id]


def test_no_job_is_joined_when_none_was_begun_with_its_id(record: Record) -> None:
    say(request_for(), OWNER, "j")
    assert join_job(OWNER, "j") is None


@pytest.mark.parametrize("changes", [{"model": "other"}, {"stream": True}, {"session_id": "s"}, {"temperature": 0}])
def test_key_is_refused_when_it_comes_with_another_request(record: Record, changes: Json) -> None:
    say(request_for(), OWNER, "k")
    with pytest.raises(IdempotencyKeyReused) as refused:
        say(request_for(**changes), OWNER, "k")
    assert (refused.value.http_status, refused.value.error_code) == (422, "idempotency_key_reused")
    assert len(record.runs) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"stream": False, "n": 1, "user": None}),
        ({"session_id": "s"}, {"chatId": "s"}),
        ({"stream": True, "temperature": 1}, {"temperature": 1, "stream": True}),
    ],
)
def test_requests_are_the_same_when_they_say_the_same(one: Json, other: Json) -> None:
    digests = {request_key(request_for(**fields), OWNER, "k").digest for fields in (one, other)}
    assert len(digests) == 1


def test_session_is_busy_when_the_run_that_goes_on_has_another_key(record: Record) -> None:
    say(request_for(session_id="s"), OWNER, "k")
    with pytest.raises(Conflict):
        say(request_for(session_id="s"), OWNER, "l")


def test_start_is_finished_when_whoever_began_the_run_died_before_it(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(run: Run) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(beginning, "start_execution", dies)
        with pytest.raises(SystemExit):
            say(request_for(), OWNER, "k")
    joined = say(request_for(), OWNER, "k")
    assert record.started == [joined.run.run_id]


@pytest.mark.parametrize(("key", "closed"), [("", [LOST]), ("k", [])])
def test_run_that_cannot_be_started_is_closed_unless_a_key_can_join_it(
    record: Record, key: str, closed: list[str]
) -> None:
    record.cannot_start = True
    with pytest.raises(ConnectionError):
        say(request_for(), OWNER, key)
    assert record.closed == [(record.runs[0].run_id, error) for error in closed]


def test_execution_is_not_started_again_when_the_run_has_ended(record: Record) -> None:
    record.runs = [a_run(status=RunStatus.COMPLETED)]
    record.note_begun(request_key(request_for(), OWNER, "k"), Begun(RUN_ID))
    assert say(request_for(), OWNER, "k").run.run_id == RUN_ID
    assert record.started == []


def asking(record: Record) -> None:
    """The session waits with a question."""
    run = say(request_for(session_id="s"), OWNER).run
    record.runs = [run.model_copy(update={"pending": (InteractionId("q1"),), "status": RunStatus.WAITING})]


def test_answer_goes_to_the_question_it_was_meant_for_when_it_comes_again(record: Record) -> None:
    asking(record)
    say(request_for(session_id="s"), OWNER, "k")
    record.runs = [record.runs[0].model_copy(update={"pending": (InteractionId("q2"),)})]
    say(request_for(session_id="s"), OWNER, "k")
    assert record.answers == [("q1", "Hi"), ("q1", "Hi")]


def test_job_is_busy_and_answers_nothing_when_the_session_waits_for_a_person(record: Record) -> None:
    run = start_job(request_for(session_id="s"), OWNER, "j1")
    record.runs = [run.model_copy(update={"pending": (InteractionId("q1"),), "status": RunStatus.WAITING})]
    with pytest.raises(Conflict):
        start_job(request_for(session_id="s"), OWNER, "j2")
    assert record.answers == []


def test_keys_are_known_for_a_day_and_jobs_for_longer_than_a_message_lives() -> None:
    request = request_for()
    assert request_key(request, OWNER, "k").kept == timedelta(days=1)
    assert subject.job_key(request, OWNER, "k").kept > timedelta(days=28)


@pytest.mark.parametrize("header", ["", "x" * 256, "a\tb", "ключ"])
def test_key_is_refused_when_it_is_none(header: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_idempotency_key(header)
    assert refused.value.param == "Idempotency-Key"


@pytest.mark.parametrize(("header", "key"), [(None, ""), ("a-1", "a-1"), ("x" * 255, "x" * 255)])
def test_key_is_taken_as_it_stands_in_the_header(header: str | None, key: str) -> None:
    assert read_idempotency_key(header) == key


class Told:
    """Begins a run, and notes with which key. Stands for `say`."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, request: ChatRequest, principal: Principal, key: str, *, used_key: UsedKey | None) -> Following:
        self.keys.append(key)
        return Following(a_run(), 0)


def posted(monkeypatch: pytest.MonkeyPatch, told: Told, body: Json, **headers: str) -> httpx.Response:
    """What a request that is not streamed gets where this is its chat completion."""
    app = load("stream", "app")

    async def whole(following: Following, ignored: Sequence[str]) -> Json:
        return body

    async def post() -> httpx.Response:
        context = json.dumps({"authorizer": {"principalId": OWNER}})
        transport = httpx.ASGITransport(app.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://function") as client:
            return await client.post(
                "/chat/completions", json=BODY, headers={"x-amzn-request-context": context, **headers}
            )

    monkeypatch.setattr(app, "say", told)
    monkeypatch.setattr(app, "whole_chat", whole)
    return asyncio.run(post())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (shapes.unfinished(a_run()), 202),
        (shapes.completion(a_run(status=RunStatus.COMPLETED), "Hi", "", stepagent={"status": "completed"}), 200),
        (shapes.completion(a_run(), "Which?", "", stepagent={"status": "waiting"}), 200),
        (shapes.failure(None), 502),
    ],
)
def test_status_says_whether_the_run_came_to_an_answer(
    monkeypatch: pytest.MonkeyPatch, body: Json, status: int
) -> None:
    reply = posted(monkeypatch, Told(), body)
    assert (reply.status_code, reply.headers["x-stepagent-run-id"]) == (status, RUN_ID)


@pytest.mark.parametrize("body", [shapes.failure(None), shapes.cancelled()])
def test_clients_are_told_not_to_begin_another_run_by_themselves_when_one_failed(
    monkeypatch: pytest.MonkeyPatch, body: Json
) -> None:
    assert posted(monkeypatch, Told(), body).headers["x-should-retry"] == "false"


def test_key_of_the_header_reaches_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    posted(monkeypatch, told, shapes.unfinished(a_run()), **{"Idempotency-Key": "k"})
    posted(monkeypatch, told, shapes.unfinished(a_run()))
    assert told.keys == ["k", ""]


def test_request_that_joins_a_run_has_it_go_on_when_its_execution_was_lost(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = say(request_for(), OWNER, "k").run
    resumed: list[Run] = []
    monkeypatch.setattr(beginning, "start_execution", lambda name: False)
    monkeypatch.setattr(beginning, "ensure_execution", resumed.append)
    say(request_for(), OWNER, "k")
    assert resumed == [run]
