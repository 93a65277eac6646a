"""What leaves the stack when a person is asked, as whoever listens on the bus sees it."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.build import build
from local.deploy import client, deploy
from local.emulator import start, stop
from stepagent.answering import answer, read_interaction
from stepagent.notifying import events
from stepagent.runs import InteractionId, RunId
from stepagent.store.clients import dynamodb
from stepagent.store.items import question_key
from stepagent.store.runs import require_run
from tests.integration.runs import ME, begin, events_of, wait_for_event
from tests.local_loop import ROOT, LocalLoop
from tests.scripted_model import Reply, ScriptedModel

SECRET = "the secret value"
_WAIT_S = 60
FIRES_S = 30  # the emulator looks at its schedules every 10 seconds, in one thread
EVENT: dict[str, Any] = {
    "interaction_id": "q1",
    "run_id": "run_abc_1",
    "agent": "assistant",
    "tool": "ask_user",
    "type": "text",
    "description": "Which 'colour'?",
    "owner": "ann",
    "expires_at": "2030-01-01T13:00:00+00:00",
}


class Listener:
    """A queue behind a rule on the bus."""

    def __init__(self, sqs: Any, url: str) -> None:
        self._sqs, self._url = sqs, url
        self.heard: list[dict[str, Any]] = []

    def of(self, question: InteractionId) -> list[tuple[str, dict[str, Any]]]:
        """The events about a question until now, each its kind and its detail."""
        while messages := self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", []):
            self.heard += [json.loads(message["Body"]) for message in messages]
            for message in messages:
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return [(e["detail-type"], e["detail"]) for e in self.heard if e["detail"].get("interaction_id") == question]

    def hear(self, question: InteractionId, least: int) -> list[tuple[str, dict[str, Any]]]:
        """The same, once there are so many: who follows a run hears of its question a little before the bus does."""
        deadline = time.monotonic() + _WAIT_S
        while len(heard := self.of(question)) < least:
            assert time.monotonic() < deadline, f"only {heard} of {question}"
            time.sleep(0.05)
        return heard

    def kinds(self, question: InteractionId) -> list[str]:
        return [kind for kind, _ in self.of(question)]


@pytest.fixture
def listener(loop: LocalLoop, set_environment: Callable[..., None]) -> Iterator[Listener]:
    """Hears all that the stack says on the bus; this process takes part."""
    set_environment(EVENT_BUS_NAME="default")
    events.cache_clear()
    sqs, bus = loop.client("sqs"), loop.client("events")
    url = sqs.create_queue(QueueName="heard")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    bus.put_rule(Name="heard", EventPattern=json.dumps({"source": ["stepagent"]}))
    bus.put_targets(Rule="heard", Targets=[{"Id": "queue", "Arn": arn}])
    yield Listener(sqs, url)
    bus.remove_targets(Rule="heard", Ids=["queue"])
    bus.delete_rule(Name="heard")
    sqs.delete_queue(QueueUrl=url)
    events.cache_clear()


def asked(model: ScriptedModel, call: tuple[str, dict[str, Any]], agent: str, session: str) -> InteractionId:
    """The question of a run that waits for a person."""
    model.script_for(f"notify {session}", Reply(calls=(call,)), Reply(text="Good."))
    run_id = begin(f"notify {session}", agent, session_id=session).run.run_id
    wait_for_event(run_id, "interaction.required")
    [question] = require_run(run_id).pending
    return question


def test_bus_hears_that_a_question_waits_and_that_it_was_answered(
    loop: LocalLoop, model: ScriptedModel, listener: Listener
) -> None:
    question = asked(model, ("ask_user", {"question": "Which colour?"}), "prober", "colour")
    answer(question, ME, SECRET)
    (first, required), (last, resolved) = listener.hear(question, 2)
    assert (first, last) == ("Interaction Required", "Interaction Resolved")
    assert (required["description"], required["agent"], required["session_id"]) == ("Which colour?", "prober", "colour")
    assert resolved["status"] == "answered"
    assert SECRET not in json.dumps(listener.heard)


def test_bus_hears_neither_arguments_nor_the_task_token_when_a_call_waits_for_approval(
    loop: LocalLoop, model: ScriptedModel, listener: Listener
) -> None:
    question = asked(model, ("guarded", {"action": "echo", "value": SECRET}), "asker", "approval")
    [(_, required)] = listener.hear(question, 1)
    stored = dynamodb().get_item(TableName=loop.stack.record_table, Key=question_key(question))["Item"]
    assert required["description"] == "May guarded run?"
    assert SECRET not in json.dumps(listener.heard)
    [token] = stored["task_tokens"]["SS"]
    assert token not in json.dumps(listener.heard)
    answer(question, ME, "reject")


def test_bus_hears_once_and_of_the_run_at_the_top_when_an_agent_below_asks(
    loop: LocalLoop, model: ScriptedModel, listener: Listener
) -> None:
    model.script_for("ask below", Reply(calls=(("ask_user", {"question": "Which size?"}),)), Reply(text="Small."))
    question = asked(model, ("consult", {"task": "ask below"}), "manager", "below")
    [(_, required)] = listener.hear(question, 1)
    assert (required["agent"], required["session_id"]) == ("manager", "below")
    assert require_run(required["run_id"]).pending == (question,)
    answer(question, ME, "small")


def test_person_is_reminded_while_a_question_waits_and_not_behind_its_answer(
    loop: LocalLoop, model: ScriptedModel, listener: Listener
) -> None:
    ask = ("ask_patiently", {"question": "Still there?"})
    answered = asked(model, ask, "patient", "quick")
    answer(answered, ME, "yes")
    model.script_for("notify slow", Reply(calls=(ask,)), Reply(text="Good."))
    run_id: RunId = begin("notify slow", "patient", session_id="slow").run.run_id
    wait_for_event(run_id, "interaction.required")
    [question] = require_run(run_id).pending

    deadline = time.monotonic() + FIRES_S
    while listener.kinds(question).count("Interaction Reminder") < 2:
        assert time.monotonic() < deadline, listener.heard
        time.sleep(0.2)
    assert loop.client("scheduler").list_schedules(GroupName="stepagent-reminders")["Schedules"] == []
    assert [change.status for change in read_interaction(question, ME).history] == ["pending", "reminded", "reminded"]
    assert events_of(run_id).count("interaction.reminder") == 2
    assert [kind for kind, _ in listener.hear(answered, 2)] == ["Interaction Required", "Interaction Resolved"]
    assert [change.status for change in read_interaction(answered, ME).history] == ["pending", "answered"]
    answer(question, ME, "yes")
    assert loop.wait_end(run_id) == "SUCCEEDED"


def test_address_of_the_stack_is_written_to_when_a_question_waits(tmp_path: Path) -> None:
    emulator = start(tmp_path)
    try:
        parameters = {"ModelApiKeySecretArn": "", "NotifyEmail": "ann@example.com"}
        deploy(emulator, build(ROOT, environment={}, parameters=parameters))
        sns, sqs = client(emulator, "sns"), client(emulator, "sqs")
        [topic] = [found["TopicArn"] for found in sns.list_topics()["Topics"]]
        [subscription] = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "ann@example.com")
        url = sqs.create_queue(QueueName="mailbox")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
        for kind in ("Interaction Required", "Interaction Resolved"):
            entry = {"Source": "stepagent", "DetailType": kind, "Detail": json.dumps(EVENT)}
            client(emulator, "events").put_events(Entries=[entry])
        received = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=2, MaxNumberOfMessages=10)["Messages"]
        [lines] = [[json.loads(line) for line in message["Body"].splitlines()] for message in received]
    finally:
        stop(emulator)
    assert lines[:2] == ["Interaction Required: the agent assistant asks ann (text, tool ask_user).", "Which 'colour'?"]
    assert lines[2].startswith("Read all of it: GET https://")
    assert lines[2].endswith("/v1/interactions/q1")
    assert lines[-1] == "Interaction q1 of run run_abc_1."
