"""Messages of the queue: which of them start a run, as what, and what is said of the others."""

import json
from typing import Any

import pytest

from stepagent import triggers as subject
from stepagent.api.body import MAX_BODY_BYTES
from stepagent.api.requests import ChatRequest
from stepagent.errors import Conflict, NotFound, RecordUnavailable
from stepagent.runs import Principal, Run
from tests.builders import a_run
from tests.functions import load

Json = dict[str, Any]
JOB: Json = {"agent": "helper", "input": "What is new?"}


class Starts:
    """Takes jobs, or fails at those of some agents. Stands for `start_job`."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, ChatRequest]] = []
        self.owners: list[str] = []
        self.failures: dict[str, Exception] = {}

    def __call__(self, request: ChatRequest, principal: Principal, job_id: str) -> Run:
        if failure := self.failures.get(request.model):
            raise failure
        self.jobs.append((job_id, request))
        self.owners.append(principal)
        return a_run()


class Said:
    """Hears what is logged. Stands for the logger."""

    def __init__(self) -> None:
        self.errors: list[Json] = []

    def info(self, message: str, *, extra: Json) -> None: ...

    def error(self, message: str, *, exc_info: bool, extra: Json) -> None:
        self.errors.append({**extra, "exc_info": exc_info})


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(subject, "start_job", made)
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    made = Said()
    monkeypatch.setattr(subject, "logger", made)
    return made


def a_record(message_id: str, body: Any, receives: int = 1) -> Json:
    return {
        "messageId": message_id,
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {"ApproximateReceiveCount": str(receives)},
        "eventSource": "aws:sqs",
    }


def deliver(*records: Json) -> list[str]:
    """The ids that the function reports as failed."""
    reply = load("ingest", "app").handler({"Records": list(records)}, object())
    return [item["itemIdentifier"] for item in reply["batchItemFailures"]]


def test_message_starts_a_run_of_the_agent_with_the_input(starts: Starts) -> None:
    assert deliver(a_record("m1", JOB | {"session_id": "s"})) == []
    [(_, request)] = starts.jobs
    assert (request.model, request.session_id, request.messages[-1].text) == ("helper", "s", "What is new?")


@pytest.mark.parametrize(("field", "job_id"), [({}, "m1"), ({"message_id": "M"}, "M"), ({"id": "M"}, "M")])
def test_job_is_known_by_its_senders_id_or_else_by_its_messages(starts: Starts, field: Json, job_id: str) -> None:
    deliver(a_record("m1", JOB | field))
    assert [known for known, _ in starts.jobs] == [job_id]


@pytest.mark.parametrize(("variables", "owner"), [({}, "queue"), ({"INGEST_PRINCIPAL": "ann"}, "ann")])
def test_run_belongs_to_the_principal_of_the_deployment(
    starts: Starts, set_environment: Any, variables: dict[str, str], owner: str
) -> None:
    set_environment(**variables)
    deliver(a_record("m1", JOB))
    assert starts.owners == [owner]


BROKEN: dict[str, tuple[Any, str]] = {
    "no JSON": ("{not json", "not valid JSON"),
    "no object": ("[]", "JSON object"),
    "empty": ("", "not valid JSON"),
    "no agent": ({"input": "x"}, "'agent'"),
    "no input": ({"agent": "helper"}, "'input'"),
    "blank input": ({"agent": "helper", "input": " "}, "'input'"),
    "a typing error": (JOB | {"sesion_id": "s"}, "'sesion_id'"),
    "an id that is none": (JOB | {"message_id": 7}, "message_id"),
    "too large": (JOB | {"input": "x" * MAX_BODY_BYTES}, "bytes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_message_fails_alone_and_says_why(starts: Starts, said: Said, name: str) -> None:
    body, reason = BROKEN[name]
    assert deliver(a_record("m1", JOB), a_record("bad", body, 3), a_record("m2", JOB)) == ["bad"]
    assert [job_id for job_id, _ in starts.jobs] == ["m1", "m2"]
    [line] = said.errors
    assert (line["message_id"], line["receives"]) == ("bad", "3")
    assert reason in line["reason"]


@pytest.mark.parametrize(
    ("failure", "code", "with_trace"),
    [
        (Conflict("Run r of this session is still going on.", "session_id", "session_busy"), "session_busy", False),
        (NotFound("There is no agent 'helper'.", "model", "model_not_found"), "model_not_found", False),
        (RecordUnavailable("The record cannot be reached."), "record_unavailable", False),
        (ZeroDivisionError("secret"), "ZeroDivisionError", True),
    ],
)
def test_message_comes_again_when_its_run_could_not_be_started(
    starts: Starts, said: Said, failure: Exception, code: str, with_trace: bool
) -> None:
    starts.failures["helper"] = failure
    assert deliver(a_record("m1", JOB), a_record("m2", JOB | {"agent": "other"})) == ["m1"]
    [line] = said.errors
    assert (line["code"], line["exc_info"]) == (code, with_trace)


def test_every_message_is_reported_when_all_of_them_fail(starts: Starts, said: Said) -> None:
    assert deliver(a_record("a", "x"), a_record("b", "y")) == ["a", "b"]


def test_nothing_is_reported_when_the_batch_before_had_failures(starts: Starts, said: Said) -> None:
    deliver(a_record("a", "x"))
    assert deliver(a_record("b", JOB)) == []


def test_log_holds_no_payload_when_a_message_is_broken(starts: Starts, said: Said) -> None:
    deliver(a_record("a", '{"input": "a secret", "agent": 5'), a_record("b", JOB | {"input": ["a secret"]}))
    assert len(said.errors) == 2
    assert "secret" not in json.dumps(said.errors)
