"""Jobs through the deployed queue: each starts one run, and a broken one ends in the dead-letter queue."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stepagent.api import service
from stepagent.api.requests import read_job_request
from stepagent.api.service import read_run, session_key_of, start_job
from stepagent.runs import ENDED, Principal, Run, RunId, RunKey
from stepagent.store.runs import load_run, load_session
from tests.integration.runs import function_named
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

Json = dict[str, Any]
QUEUE = Principal("queue")
_WAIT_S = 60
_SOON_S = "3"


class Queues:
    """The deployed queues."""

    def __init__(self, loop: LocalLoop) -> None:
        self.client = loop.client("sqs")
        outputs = loop.client("cloudformation").describe_stacks(StackName="stepagent")["Stacks"][0]["Outputs"]
        urls = {output["OutputKey"]: output["OutputValue"] for output in outputs}
        self.jobs, self.dead = urls["IngestQueueUrl"], urls["IngestDeadLetterQueueUrl"]

    def send(self, body: str | Json) -> str:
        text = body if isinstance(body, str) else json.dumps(body)
        message_id: str = self.client.send_message(QueueUrl=self.jobs, MessageBody=text)["MessageId"]
        return message_id

    def dead_bodies(self) -> list[str]:
        found = self.client.receive_message(QueueUrl=self.dead, MaxNumberOfMessages=10)
        return [message["Body"] for message in found.get("Messages", [])]

    def left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.jobs, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


@pytest.fixture
def queues(loop: LocalLoop) -> Iterator[Queues]:
    """The queues, where a failed message comes again soon, and a warm function, so that no good one does."""
    found = Queues(loop)
    deliver(loop, ("warm", {}))
    attributes = {"QueueUrl": found.jobs, "AttributeNames": ["VisibilityTimeout"]}
    before = found.client.get_queue_attributes(**attributes)["Attributes"]
    found.client.set_queue_attributes(QueueUrl=found.jobs, Attributes={"VisibilityTimeout": _SOON_S})
    yield found
    found.client.set_queue_attributes(QueueUrl=found.jobs, Attributes=before)


def a_job(session: str, **fields: Any) -> Json:
    return {"agent": "prober", "input": f"job {session}", "session_id": session, **fields}


def key_of(session: str, ordinal: int = 1) -> RunKey:
    return RunKey(session_key_of(QUEUE, session), ordinal)


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


def test_broken_job_reaches_the_dead_letter_queue_as_it_was_sent_while_others_run_once(
    queues: Queues, model: ScriptedModel
) -> None:
    for name in ("a", "b"):
        model.script_for(f"job {name}", Reply(text="Done."))
    for body in (a_job("a"), "{not json", a_job("b")):
        queues.send(body)
    dead: list[str] = []
    deadline = time.monotonic() + _WAIT_S
    while not dead and time.monotonic() < deadline:
        dead += queues.dead_bodies()
        time.sleep(0.2)
    assert dead == ["{not json"]
    assert [ended(name).answer for name in ("a", "b")] == ["Done.", "Done."]
    assert [load_session(session_key_of(QUEUE, name)).runs for name in ("a", "b")] == [1, 1]
    assert queues.left() == 0


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
        patch.setattr(service, "start_execution", dies)
        with pytest.raises(SystemExit):
            start_job(request, QUEUE, "torn")
    assert deliver(loop, ("E1", job)) == []
    assert ended("torn").answer == "Done."
