"""Messages of the queue: which of them start a run, as what, and what is said of the others."""

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from stepagent import queues
from stepagent.api.body import MAX_BODY_BYTES
from stepagent.api.requests import ChatRequest
from stepagent.clock import now
from stepagent.errors import Conflict, IdempotencyKeyReused, NotFound, RecordUnavailable
from stepagent.runs import Principal, Run
from stepagent.triggers import messages as subject
from stepagent.triggers.events import events_in
from tests.builders import a_run
from tests.functions import ROOT, load

Json = dict[str, Any]
JOB: Json = {"agent": "helper", "input": "What is new?"}


class Starts:
    """Takes jobs, or fails at those of some agents. Stands for `start_job` and `join_job`."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, ChatRequest]] = []
        self.owners: list[str] = []
        self.failures: dict[str, Exception] = {}
        self.begun: set[str] = set()
        self.joined: list[str] = []

    def join_job(self, principal: Principal, job_id: str) -> Run | None:
        if job_id not in self.begun:
            return None
        self.joined.append(job_id)
        return a_run()

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

    def warning(self, message: str, *, extra: Json) -> None: ...

    def error(self, message: str, *, exc_info: bool, extra: Json) -> None:
        self.errors.append({**extra, "exc_info": exc_info})


class Queues:
    """Keeps what is put aside, and for how long messages are hidden. Stands for the client of SQS."""

    def __init__(self) -> None:
        self.sent: list[Json] = []
        self.hidden: list[tuple[str, int]] = []
        self.is_down = False

    def send_message(self, **message: Any) -> None:
        self._answer("SendMessage")
        self.sent.append(message)

    def change_message_visibility(self, **message: Any) -> None:
        self._answer("ChangeMessageVisibility")
        self.hidden.append((message["ReceiptHandle"], message["VisibilityTimeout"]))

    def _answer(self, operation: str) -> None:
        if self.is_down:
            raise EndpointConnectionError(endpoint_url=operation)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(subject, "start_job", made)
    monkeypatch.setattr(subject, "join_job", made.join_job)
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    made = Said()
    monkeypatch.setattr(subject, "logger", made)
    return made


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch, set_environment: Any) -> Queues:
    made = Queues()
    monkeypatch.setattr(queues, "sqs", lambda region=None: made)
    set_environment(
        INGEST_QUEUE_URL="https://queue",
        INGEST_DEAD_LETTER_QUEUE_URL="https://dead",
        INGEST_FIFO_QUEUE_URL="https://queue.fifo",
        INGEST_FIFO_DEAD_LETTER_QUEUE_URL="https://dead.fifo",
    )
    return made


@pytest.fixture
def catalog(set_environment: Any) -> None:
    set_environment(CATALOG_DIR=str(ROOT / "catalog"))


def a_record(message_id: str, body: Any, receives: int = 1, *, waited_s: float = 0, group: str = "") -> Json:
    first_ms = int((now() - timedelta(seconds=waited_s)).timestamp() * 1000)
    attributes = {"ApproximateReceiveCount": str(receives), "ApproximateFirstReceiveTimestamp": str(first_ms)}
    return {
        "messageId": message_id,
        "receiptHandle": f"receipt of {message_id}",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": attributes | ({"MessageGroupId": group} if group else {}),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:jobs{'.fifo' if group else ''}",
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
def test_broken_message_fails_alone_and_is_not_quoted(starts: Starts, said: Said, name: str) -> None:
    body, _ = BROKEN[name]
    assert deliver(a_record("m1", JOB), a_record("bad", body, 2), a_record("m2", JOB)) == ["bad"]
    assert [job_id for job_id, _ in starts.jobs] == ["m1", "m2"]
    [line] = said.errors
    assert (line["message_id"], line["receives"]) == ("bad", 2)
    assert "reason" not in line


BUSY = Conflict("Run r of this session is still going on.", "session_id", "session_busy")
THROTTLED = ClientError({"Error": {"Code": "ThrottlingException", "Message": "a secret"}}, "StartExecution")
FAILURES = [
    (NotFound("There is no agent 'helper'.", "model", "model_not_found"), "model_not_found", "no agent", False),
    (ZeroDivisionError("a secret"), "ZeroDivisionError", "function failed", True),
]
WAITING = [
    (BUSY, "session_busy"),
    (RecordUnavailable("The record cannot be reached."), "record_unavailable"),
    (THROTTLED, "ThrottlingException"),
    (EndpointConnectionError(endpoint_url="a secret"), "EndpointConnectionError"),
]


@pytest.mark.parametrize(("failure", "code", "_", "with_trace"), FAILURES)
def test_message_comes_again_when_its_run_could_not_be_started(
    starts: Starts, said: Said, failure: Exception, code: str, _: str, with_trace: bool
) -> None:
    starts.failures["helper"] = failure
    assert deliver(a_record("m1", JOB), a_record("m2", JOB | {"agent": "other"})) == ["m1"]
    [line] = said.errors
    assert (line["code"], line["exc_info"]) == (code, with_trace)


@pytest.mark.parametrize("receives", [1, 2])
def test_broken_message_comes_again_within_seconds_when_it_came_less_than_three_times(
    starts: Starts, sqs: Queues, receives: int
) -> None:
    assert deliver(a_record("m1", "{not json", receives)) == ["m1"]
    assert (sqs.hidden, sqs.sent) == ([("receipt of m1", 5)], [])


@pytest.mark.parametrize(("failure", "code", "reason", "_"), FAILURES)
def test_message_is_put_aside_with_the_reason_when_it_failed_three_times(
    starts: Starts, sqs: Queues, failure: Exception, code: str, reason: str, _: bool
) -> None:
    starts.failures["helper"] = failure
    record = a_record("m1", JOB, 3)
    assert deliver(record, a_record("m2", JOB | {"agent": "other"})) == []
    [kept] = sqs.sent
    attributes = {name: value["StringValue"] for name, value in kept["MessageAttributes"].items()}
    assert (kept["QueueUrl"], kept["MessageBody"]) == ("https://dead", record["body"])
    assert reason in attributes.pop("Reason")
    assert attributes == {"ErrorCode": code, "MessageId": "m1", "Receives": "3"}


def test_one_broken_message_of_ten_is_put_aside_while_nine_runs_begin(starts: Starts, sqs: Queues) -> None:
    good = [a_record(f"m{n}", JOB) for n in range(9)]
    assert deliver(*good[:4], a_record("bad", "{not json", 3), *good[4:]) == []
    assert [job_id for job_id, _ in starts.jobs] == [f"m{n}" for n in range(9)]
    assert [kept["MessageBody"] for kept in sqs.sent] == ["{not json"]


@pytest.mark.parametrize(("failure", "code"), WAITING)
def test_message_waits_longer_than_three_times_when_waiting_helps(
    starts: Starts, sqs: Queues, failure: Exception, code: str
) -> None:
    starts.failures["helper"] = failure
    assert deliver(a_record("m1", JOB, 50, waited_s=400)) == ["m1"]
    [(receipt, hidden_s)] = sqs.hidden
    assert (receipt, sqs.sent) == ("receipt of m1", [])
    assert 100 <= hidden_s < 200  # a quarter of 400 s, and of what this test takes


@pytest.mark.parametrize(("failure", "code"), WAITING)
def test_message_is_put_aside_when_it_has_waited_for_a_day(
    starts: Starts, sqs: Queues, failure: Exception, code: str
) -> None:
    starts.failures["helper"] = failure
    assert deliver(a_record("m1", JOB, 150, waited_s=86_401)) == []
    assert [kept["MessageAttributes"]["ErrorCode"]["StringValue"] for kept in sqs.sent] == [code]


def test_job_is_the_same_when_its_message_was_put_aside_and_moved_back(starts: Starts, sqs: Queues) -> None:
    back = a_record("m2", JOB) | {"messageAttributes": {"MessageId": {"stringValue": "m1", "dataType": "String"}}}
    deliver(back, back | {"body": "{not json", "attributes": {"ApproximateReceiveCount": "3"}})
    assert [job_id for job_id, _ in starts.jobs] == ["m1"]
    assert [kept["MessageAttributes"]["MessageId"]["StringValue"] for kept in sqs.sent] == ["m1"]


def test_message_comes_again_when_it_cannot_be_put_aside(starts: Starts, sqs: Queues) -> None:
    sqs.is_down = True
    assert deliver(a_record("m1", "{not json", 3)) == ["m1"]


@pytest.mark.parametrize(("spare", "noted"), [(0, False), (100, False), (5_000, True)])
def test_message_is_put_aside_without_attributes_when_it_has_no_room_for_them(
    starts: Starts, sqs: Queues, spare: int, noted: bool
) -> None:
    body = "é" * ((1_048_576 - spare) // 2)
    assert deliver(a_record("m1", body, 3)) == []
    [kept] = sqs.sent
    assert (kept["MessageBody"] == body, bool(kept["MessageAttributes"])) == (True, noted)


def test_message_comes_again_when_there_is_no_dead_letter_queue(starts: Starts) -> None:
    assert deliver(a_record("m1", "{not json", 3)) == ["m1"]


# ---- a queue that keeps an order


def test_group_is_the_session_when_a_job_in_order_names_none(starts: Starts) -> None:
    deliver(a_record("m1", JOB, group="ann"), a_record("m2", JOB | {"session_id": "own"}, group="ann"))
    assert [request.session_id for _, request in starts.jobs] == ["ann", "own"]


def test_group_is_no_session_when_the_queue_keeps_no_order(starts: Starts) -> None:
    record = a_record("m1", JOB)
    record["attributes"]["MessageGroupId"] = "tenant"  # as fair queues have it
    deliver(record)
    assert [request.session_id for _, request in starts.jobs] == [None]


def test_later_messages_of_the_group_come_again_too_when_one_fails(starts: Starts, sqs: Queues) -> None:
    batch = [
        a_record("a1", "{not json", group="a"),
        a_record("b1", JOB, group="b"),
        a_record("a2", JOB, group="a"),
        a_record("b2", JOB, group="b"),
    ]
    assert deliver(*batch) == ["a1", "a2"]
    assert [job_id for job_id, _ in starts.jobs] == ["b1", "b2"]


def test_group_goes_on_when_its_first_message_is_put_aside(starts: Starts, sqs: Queues) -> None:
    assert deliver(a_record("a1", "{not json", 3, group="a"), a_record("a2", JOB, group="a")) == []
    [kept] = sqs.sent
    names = ("QueueUrl", "MessageGroupId", "MessageDeduplicationId")
    assert [kept[name] for name in names] == ["https://dead.fifo", "a", "a1"]
    assert [job_id for job_id, _ in starts.jobs] == ["a2"]


# ---- events


def an_event(**changes: Any) -> Json:
    event = {"version": "0", "id": "e1", "source": "schedule", "detail-type": "Daily Report", "time": "2030-01-01"}
    return event | {"detail": {}} | changes


def test_event_starts_a_run_of_its_rules_agent(starts: Starts, catalog: None) -> None:
    assert deliver(a_record("m1", an_event())) == []
    [(_, request)] = starts.jobs
    assert (request.model, request.metadata) == ("assistant", {"rule": "daily_report", "event_id": "e1"})
    assert "2030-01-01" in request.messages[-1].text


def test_event_is_one_job_whatever_message_brings_it(starts: Starts, catalog: None) -> None:
    deliver(a_record("m1", an_event()), a_record("m2", an_event()), a_record("m3", an_event(id="e2")))
    first, again, other = (job_id for job_id, _ in starts.jobs)
    assert (first == again, first == other) == (True, False)


def test_event_fails_with_that_reason_when_no_rule_is_for_it(starts: Starts, said: Said, catalog: None) -> None:
    assert deliver(a_record("m1", an_event(source="elsewhere"))) == ["m1"]
    assert [line["code"] for line in said.errors] == ["no_matching_rule"]


TAKEN: dict[str, Json] = {
    "its rule said something else then": an_event(),
    "no rule is for it any more": an_event(source="elsewhere"),
    "its object is gone since": an_event(
        **{"source": "aws.s3", "detail-type": "Object Created"},
        detail={"bucket": {"name": "not the inbox"}, "object": {"key": "a", "size": 1}},
    ),
}


@pytest.mark.parametrize("event", TAKEN.values(), ids=TAKEN)
def test_event_joins_the_run_that_it_started_when_it_would_start_no_such_run_now(
    starts: Starts, catalog: None, event: Json
) -> None:
    starts.failures["assistant"] = IdempotencyKeyReused("This key was sent before.")
    [found] = events_in(event) or []
    starts.begun = {found.key}
    assert deliver(a_record("m1", event)) == []
    assert starts.joined == [found.key]


def test_event_fails_when_its_rule_is_refused_and_nothing_was_started_for_it(
    starts: Starts, said: Said, catalog: None
) -> None:
    starts.failures["assistant"] = NotFound("There is no agent 'assistant'.", "model", "model_not_found")
    assert deliver(a_record("m1", an_event())) == ["m1"]
    assert [line["code"] for line in said.errors] == ["model_not_found"]


def test_job_fails_when_its_senders_id_was_used_for_another(starts: Starts, said: Said) -> None:
    starts.failures["helper"] = IdempotencyKeyReused("This key was sent before.")
    assert deliver(a_record("m1", JOB)) == ["m1"]


def test_message_is_acknowledged_when_a_bucket_only_tries_whether_it_may_send(starts: Starts) -> None:
    assert deliver(a_record("m1", {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"})) == []
    assert starts.jobs == []


def test_every_message_is_reported_when_all_of_them_fail(starts: Starts, said: Said) -> None:
    assert deliver(a_record("a", "x"), a_record("b", "y")) == ["a", "b"]


def test_nothing_is_reported_when_the_batch_before_had_failures(starts: Starts, said: Said) -> None:
    deliver(a_record("a", "x"))
    assert deliver(a_record("b", JOB)) == []


def test_log_holds_no_payload_when_a_message_is_broken(starts: Starts, said: Said) -> None:
    deliver(a_record("a", '{"input": "a secret", "agent": 5'), a_record("b", JOB | {"input": ["a secret"]}))
    assert len(said.errors) == 2
    assert "secret" not in json.dumps(said.errors)
