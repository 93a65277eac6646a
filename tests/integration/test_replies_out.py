"""Results of runs, sent by the deployed stack to where their requests wanted them, and what its bus hears of ends."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from stepagent.runs import Run, RunKey
from tests.integration.runs import ME, begin, finish, function_named
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel
from tests.web_server import WebServer, answered

Json = dict[str, Any]
_WAIT_S = 60
LISTED = "results"  # the queue that the parameter ReplyQueueArns lists


class Mailbox:
    """A queue and what came into it."""

    def __init__(self, loop: LocalLoop, name: str) -> None:
        self._sqs = loop.client("sqs")
        self.url: str = self._sqs.create_queue(QueueName=name)["QueueUrl"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        self.arn: str = attributes["Attributes"]["QueueArn"]
        self.came: list[Json] = []

    def find(self, fits: Callable[[Json], bool]) -> Json:
        """The first message that fits, once it is there."""
        deadline = time.monotonic() + _WAIT_S
        while not (found := [body for body in self._all() if fits(body)]):
            assert time.monotonic() < deadline, f"nothing fits among {self.came}"
            time.sleep(0.1)
        return found[0]

    def count(self, fits: Callable[[Json], bool]) -> int:
        return sum(map(fits, self._all()))

    def _all(self) -> list[Json]:
        asked = {"QueueUrl": self.url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        while messages := self._sqs.receive_message(**asked).get("Messages", []):
            for message in messages:
                notes = {name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()}
                self.came.append({**json.loads(message["Body"]), "notes": notes})
                self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return self.came


@pytest.fixture(scope="module")
def results(loop: LocalLoop) -> Mailbox:
    return Mailbox(loop, LISTED)


@pytest.fixture(scope="module")
def dead(loop: LocalLoop) -> Mailbox:
    outputs = loop.client("cloudformation").describe_stacks(StackName="stepagent")["Stacks"][0]["Outputs"]
    urls = {output["OutputKey"]: output["OutputValue"] for output in outputs}
    return Mailbox(loop, urls["ReplyDeadLetterQueueUrl"].rpartition("/")[2])


@pytest.fixture(scope="module")
def heard(loop: LocalLoop) -> Iterator[Mailbox]:
    """A queue behind a rule on ends of runs."""
    mailbox, bus = Mailbox(loop, "ends"), loop.client("events")
    bus.put_rule(Name="ends", EventPattern=json.dumps({"source": ["stepagent"], "detail-type": [{"prefix": "Run "}]}))
    bus.put_targets(Rule="ends", Targets=[{"Id": "queue", "Arn": mailbox.arn}])
    yield mailbox
    bus.remove_targets(Rule="ends", Ids=["queue"])
    bus.delete_rule(Name="ends")


@contextmanager
def set_up(loop: LocalLoop, function: str, **variables: str) -> Iterator[None]:
    """The function with these environment variables more, as its owner would set them."""
    functions, name = loop.client("lambda"), function_named(loop, function)
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": {**before, **variables}})
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": before})


def of(run_id: str) -> Callable[[Json], bool]:
    """Whether a message is about a run: one that was put aside, a result, or an event."""
    return lambda body: any(
        place.get("run_id") == run_id for place in (body, body.get("data", {}), body.get("detail", {}))
    )


def test_result_of_a_job_arrives_in_the_queue_that_it_names(
    loop: LocalLoop, model: ScriptedModel, results: Mailbox
) -> None:
    model.script_for("a job", Reply(text="Done."))
    outputs = loop.client("cloudformation").describe_stacks(StackName="stepagent")["Stacks"][0]["Outputs"]
    [jobs] = [output["OutputValue"] for output in outputs if output["OutputKey"] == "IngestQueueUrl"]
    job = {"agent": "prober", "input": "a job", "session_id": "with a reply", "reply_to": {"queue_url": results.url}}
    loop.client("sqs").send_message(QueueUrl=jobs, MessageBody=json.dumps(job))
    result = results.find(lambda body: body["data"]["session_id"] == "with a reply")
    assert (result["type"], result["data"]["answer"], result["data"]["owner"]) == ("run.completed", "Done.", "queue")


def test_result_of_a_request_is_an_object_below_the_prefix_that_it_names(
    loop: LocalLoop, model: ScriptedModel, api: httpx.Client
) -> None:
    model.script_for("an object", Reply(text="Done."))
    request = {"agent": "prober", "input": "an object", "reply_to": {"s3_prefix": "replies/orders"}}
    begun = api.post("/runs", json=request).json()
    s3, place = loop.client("s3"), {"Bucket": loop.stack.bucket, "Key": f"replies/orders/{begun['run_id']}.json"}
    s3.get_waiter("object_exists").wait(**place, WaiterConfig={"Delay": 1, "MaxAttempts": _WAIT_S})
    assert json.load(s3.get_object(**place)["Body"])["data"]["answer"] == "Done."
    assert begun["reply_to"]["s3_prefix"] == "replies/orders"


def test_place_is_refused_by_name_when_nobody_allowed_it(api: httpx.Client) -> None:
    request = {"agent": "prober", "input": "no", "reply_to": {"webhook": "https://hooks.example.com/x"}}
    refused = api.post("/runs", json=request)
    error = refused.json()["error"]
    assert (refused.status_code, error["param"], error["code"]) == (400, "reply_to.webhook", "reply_to_not_allowed")


def hooked(model: ScriptedModel, name: str, server: WebServer, set_environment: Callable[..., None]) -> Run:
    """A run that has answered, and whose result goes to a server on this machine, which this process lets it name."""
    host = f"http://127.0.0.1:{server.port}"
    set_environment(WEBHOOK_ALLOWED_HOSTS=host, HTTP_ALLOW_PRIVATE="true")
    model.script_for(name, Reply(text="Done."))
    return begin(name, reply_to={"webhook": f"{host}/hook"}).run


def test_webhook_is_put_aside_with_the_reason_when_its_address_is_private(
    loop: LocalLoop, model: ScriptedModel, dead: Mailbox, set_environment: Callable[..., None]
) -> None:
    with WebServer(answered()) as server:
        host = f"http://127.0.0.1:{server.port}"
        with set_up(loop, "DeliverReplyFunction", WEBHOOK_ALLOWED_HOSTS=host):
            run = hooked(model, "private", server, set_environment)
            kept = dead.find(of(run.run_id))
    assert "not on the public internet" in kept["notes"]["Reason"]
    assert server.requests == []


def test_signed_webhook_comes_again_until_it_is_taken(
    loop: LocalLoop, model: ScriptedModel, set_environment: Callable[..., None]
) -> None:
    with WebServer(answered(b"", "503 Busy"), answered(b"", "204 No Content")) as server:
        host = f"http://127.0.0.1:{server.port}"
        with set_up(loop, "DeliverReplyFunction", WEBHOOK_ALLOWED_HOSTS=host, HTTP_ALLOW_PRIVATE="true"):
            run = hooked(model, "again", server, set_environment)
            deadline = time.monotonic() + _WAIT_S
            while len(server.requests) < 2:
                assert time.monotonic() < deadline, f"{len(server.requests)} requests"
                time.sleep(0.1)
    first, second = server.requests[:2]
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == f"{run.run_id}.completed"
    assert second.headers["webhook-signature"].startswith("v1,")
    assert json.loads(second.body)["data"]["answer"] == "Done."


def test_bus_hears_of_an_end_with_its_cost_and_without_its_answer(
    loop: LocalLoop, model: ScriptedModel, heard: Mailbox
) -> None:
    model.script_for("told on the bus", Reply(text="A secret answer."))
    run = finish(loop, "told on the bus")
    event = heard.find(of(run.run_id))
    assert (event["detail-type"], event["detail"]["owner"]) == ("Run Completed", ME)
    assert event["detail"]["usage"]["input_tokens"] == run.usage.input_tokens > 0
    assert "secret" not in json.dumps(event)


def test_bus_hears_of_the_run_at_the_top_alone_when_it_calls_an_agent(
    loop: LocalLoop, model: ScriptedModel, heard: Mailbox
) -> None:
    model.script_for("below the top", Reply(text="Found."))
    model.script_for("at the top", Reply(calls=(("consult", {"task": "below the top"}),)), Reply(text="Done."))
    run = finish(loop, "at the top", "manager")
    heard.find(of(run.run_id))
    told = [RunKey.parse(body["detail"]["run_id"]) for body in heard.came]
    assert [key for key in told if key.session.startswith("0")] == []  # as sessions of called agents do
