"""Jobs and events through the deployed queues: each starts one run, and a broken one is put aside with the reason."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepagent.api import beginning
from stepagent.api.beginning import session_key_of
from stepagent.api.requests import read_job_request
from stepagent.api.service import read_run, start_job
from stepagent.messages import UserMessage
from stepagent.runs import ENDED, Principal, Run, RunId, RunKey
from stepagent.store.conversation import load_history
from stepagent.store.runs import list_runs, load_run, load_session
from tests.integration.runs import function_named
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

Json = dict[str, Any]
QUEUE = Principal("queue")
_WAIT_S = 120


class Queues:
    """The deployed queues."""

    def __init__(self, loop: LocalLoop) -> None:
        self.client = loop.client("sqs")
        self.outputs = outputs_of(loop)
        self.jobs = self.outputs["IngestQueueUrl"]

    def send(self, *bodies: str | Json) -> None:
        entries = [{"Id": str(n), "MessageBody": as_text(body)} for n, body in enumerate(bodies)]
        assert not self.client.send_message_batch(QueueUrl=self.jobs, Entries=entries).get("Failed")

    def send_in_order(self, group: str, *bodies: Json) -> None:
        for body in bodies:
            url = self.outputs["IngestFifoQueueUrl"]
            self.client.send_message(QueueUrl=url, MessageBody=as_text(body), MessageGroupId=group)

    def put_aside(self, text: str) -> list[Json]:
        """The messages that hold a text and failed, once there are any; with their attributes."""
        url, found = self.outputs["IngestDeadLetterQueueUrl"], list[Json]()

        def is_there() -> bool:
            received = self.client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
            ).get("Messages", [])
            found.extend(message for message in received if text in message["Body"])
            return bool(found)

        wait_until(is_there)
        return found

    def left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.jobs, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


def as_text(body: str | Json) -> str:
    return body if isinstance(body, str) else json.dumps(body)


def outputs_of(loop: LocalLoop) -> dict[str, str]:
    outputs = loop.client("cloudformation").describe_stacks(StackName="stepagent")["Stacks"][0]["Outputs"]
    return {output["OutputKey"]: output["OutputValue"] for output in outputs}


@pytest.fixture
def queues(loop: LocalLoop) -> Queues:
    return Queues(loop)


def a_job(session: str, **fields: Any) -> Json:
    return {"agent": "prober", "input": f"job {session}", "session_id": session, **fields}


def key_of(session: str, ordinal: int = 1) -> RunKey:
    return RunKey(session_key_of(QUEUE, session), ordinal)


def runs_of(rule: str) -> list[Run]:
    """The runs that events began by this rule."""
    found = (load_run(key) for key in list_runs(QUEUE, 1000))
    return [run for run in found if run and run.metadata.get("rule") == rule]


def ended_by(rule: str, known: int) -> Run:
    """The run that a rule began beside those known, when it has ended; the only one."""
    wait_until(lambda: len(runs_of(rule)) > known and all(run.status in ENDED for run in runs_of(rule)))
    newest, *others = sorted(runs_of(rule), key=lambda run: run.created_at, reverse=True)
    assert len(others) == known
    return newest


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.1)


def begun(session: str, ordinal: int = 1) -> Run:
    """The n-th run of a session of the queue's, once it is there."""
    deadline = time.monotonic() + _WAIT_S
    while (run := load_run(key_of(session, ordinal))) is None:
        assert time.monotonic() < deadline, f"{session} has no run {ordinal}"
        time.sleep(0.05)
    return run


def ended(session: str, ordinal: int = 1) -> Run:
    """The same, once it has ended."""
    deadline = time.monotonic() + _WAIT_S
    while (run := begun(session, ordinal)).status not in ENDED:
        assert time.monotonic() < deadline, f"run {ordinal} of {session} does not end"
        time.sleep(0.05)
    return run


def deliver(loop: LocalLoop, *messages: tuple[str, Json]) -> list[str]:
    """Hands messages to the function, as SQS does; returns the ids of those that failed."""
    records = [
        {"messageId": message_id, "body": json.dumps(body), "attributes": {"ApproximateReceiveCount": "1"}}
        for message_id, body in messages
    ]
    function = function_named(loop, "IngestFunction")
    reply = loop.client("lambda").invoke(FunctionName=function, Payload=json.dumps({"Records": records}))
    return [item["itemIdentifier"] for item in json.load(reply["Payload"])["batchItemFailures"]]


def test_job_is_answered_by_a_run_of_the_queues_principal(queues: Queues, model: ScriptedModel) -> None:
    model.script_for("job one", Reply(text="Done."))
    queues.send(a_job("one"))
    run = ended("one")
    assert (run.answer, run.owner, read_run(run.run_id, QUEUE)) == ("Done.", "queue", run)


def test_one_broken_job_of_ten_is_put_aside_with_the_reason_while_nine_run_once(
    queues: Queues, model: ScriptedModel
) -> None:
    names = [f"nine-{n}" for n in range(9)]
    model.default = Reply(text="Done.")
    jobs = [a_job(name) for name in names]
    queues.send(*jobs[:4], "{not json", *jobs[4:])
    [kept] = queues.put_aside("{not json")
    attributes = {name: value["StringValue"] for name, value in kept["MessageAttributes"].items()}
    assert (kept["Body"], attributes["ErrorCode"], attributes["Receives"]) == ("{not json", "invalid_request", "3")
    assert "not valid JSON" in attributes["Reason"]
    assert [ended(name).answer for name in names] == ["Done."] * 9
    assert [load_session(session_key_of(QUEUE, name)).runs for name in names] == [1] * 9
    wait_until(lambda: queues.left() == 0)


def test_job_that_is_delivered_five_times_starts_one_run(queues: Queues, model: ScriptedModel) -> None:
    model.script_for("job five", Reply(text="Done."))
    queues.send(*[a_job("five", message_id="five")] * 5)
    assert ended("five").answer == "Done."
    wait_until(lambda: queues.left() == 0)
    assert load_session(session_key_of(QUEUE, "five")).runs == 1


def test_same_job_starts_one_run_when_it_comes_again_under_other_message_ids(
    loop: LocalLoop, model: ScriptedModel
) -> None:
    model.script_for("job again", Reply(text="Done."))
    job = a_job("again", message_id="M1")
    assert deliver(loop, ("E1", job), ("E1", job), ("E2", job)) == []
    ended("again")
    assert deliver(loop, ("E3", job)) == []  # after its end, too
    assert load_session(session_key_of(QUEUE, "again")).runs == 1


def test_job_comes_again_when_its_session_is_busy(queues: Queues, model: ScriptedModel) -> None:
    model.script_for("job busy", Reply(text="First.", first_delay_s=1), Reply(text="Second."))
    queues.send(a_job("busy"))
    begun("busy")
    queues.send(a_job("busy"))
    assert [ended("busy", ordinal).answer for ordinal in (1, 2)] == ["First.", "Second."]


def test_run_is_started_when_the_first_delivery_died_between_its_record_and_its_execution(
    loop: LocalLoop, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(run_id: RunId) -> None:
        raise SystemExit

    model.script_for("job torn", Reply(text="Done."))
    job = a_job("torn", message_id="torn")
    request = read_job_request(json.dumps(job).encode()).as_chat()
    with monkeypatch.context() as patch:
        patch.setattr(beginning, "start_execution", dies)
        with pytest.raises(SystemExit):
            start_job(request, QUEUE, "torn")
    assert deliver(loop, ("E1", job)) == []
    assert ended("torn").answer == "Done."


def test_jobs_of_a_group_run_one_after_the_other_in_their_order(queues: Queues, model: ScriptedModel) -> None:
    for name in ("first", "second", "third"):
        model.script_for(f"in order {name}", Reply(text=f"Did {name}.", first_delay_s=0.5))
    jobs = [{"agent": "prober", "input": f"in order {name}"} for name in ("first", "second", "third")]
    queues.send_in_order("ann", *jobs)
    assert [ended("ann", ordinal).answer for ordinal in (1, 2, 3)] == ["Did first.", "Did second.", "Did third."]


def test_object_in_the_inbox_starts_one_run_that_is_given_its_text(
    loop: LocalLoop, queues: Queues, model: ScriptedModel
) -> None:
    model.script_for("A file was uploaded: in/März 1.txt (19 bytes)", Reply(text="It is about tea."))
    known, bucket = len(runs_of("inbox")), queues.outputs["InboxBucket"]
    loop.client("s3").put_object(Bucket=bucket, Key="in/März 1.txt", Body=b"Tea is to be bought")
    run = ended_by("inbox", known)
    assert (run.answer, run.agent.name, read_run(run.run_id, QUEUE)) == ("It is about tea.", "assistant", run)
    [said] = [entry for entry in load_history(run.key.session) if isinstance(entry, UserMessage)]
    assert [(file.name, file.text) for file in said.files] == [("März 1.txt", "Tea is to be bought")]


def test_object_starts_one_run_when_both_a_notification_and_an_event_tell_of_it(
    loop: LocalLoop, queues: Queues, model: ScriptedModel
) -> None:
    model.default = Reply(text="Done.")
    known, bucket = len(runs_of("inbox")), {"name": queues.outputs["InboxBucket"]}
    loop.client("s3").put_object(Bucket=bucket["name"], Key="twice.txt", Body=b"x")
    ended_by("inbox", known)
    named = {"key": "twice.txt", "size": 1, "sequencer": "0055AED6DCD90281E5"}
    record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"bucket": bucket, "object": named}}
    event = {"id": "e", "source": "aws.s3", "detail-type": "Object Created"}
    event_too = event | {"detail": {"bucket": bucket, "object": named}}
    assert deliver(loop, ("n1", {"Records": [record]}), ("n2", event_too)) == []
    assert ended_by("inbox", known + 1).answer == "Done."


def test_event_of_the_bus_starts_one_run_in_the_session_of_its_rule(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script_for("Check the order 7 over 1250.5", Reply(text="It is in order."))
    known, detail = len(runs_of("order_placed")), {"order_id": 7, "total": 1250.5}
    entry = {"Source": "com.example.orders", "DetailType": "Order Placed", "Detail": json.dumps(detail)}
    assert loop.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0
    run = ended_by("order_placed", known)
    assert (run.answer, run.session_id, run.owner) == ("It is in order.", "order-7", "queue")


def test_event_is_put_aside_with_that_reason_when_no_rule_is_for_it(loop: LocalLoop, queues: Queues) -> None:
    entry = {"Source": "com.example.orders", "DetailType": "Order Shipped", "Detail": "{}"}
    loop.client("events").put_events(Entries=[entry])
    [kept] = queues.put_aside("Order Shipped")
    assert kept["MessageAttributes"]["ErrorCode"]["StringValue"] == "no_matching_rule"


def test_schedule_starts_one_run(loop: LocalLoop, model: ScriptedModel) -> None:
    """The stack's own schedule, moved to now; the emulator leaves the keywords in its input as they are."""
    model.script_for("Write the report for the day that ended at", Reply(text="All is well."))
    known, scheduler = len(runs_of("daily_report")), loop.client("scheduler")
    [name] = [each["Name"] for each in scheduler.list_schedules()["Schedules"] if "DailyReport" in each["Name"]]
    target = scheduler.get_schedule(Name=name)["Target"]
    soon = f"at({datetime.now(UTC) + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S})"
    scheduler.create_schedule(
        Name="report-now", ScheduleExpression=soon, FlexibleTimeWindow={"Mode": "OFF"}, Target=target
    )
    assert ended_by("daily_report", known).answer == "All is well."
