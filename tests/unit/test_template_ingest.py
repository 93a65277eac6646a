"""The template's contract for events in: who may send what to which queue, and what becomes of a message there."""

import json
import re
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from stepagent.triggers.events import events_in
from stepagent.triggers.rules import TRIGGERS_FILE, load_rules, rule_for
from tests.functions import ROOT

Json = dict[str, Any]

TEMPLATE: Json = yaml_parse((ROOT / "template.yaml").read_text())
RESOURCES: Json = {name: resource.get("Properties", {}) for name, resource in TEMPLATE["Resources"].items()}
GLOBALS: Json = TEMPLATE["Globals"]["Function"]
FUNCTION: Json = RESOURCES["IngestFunction"]
# Each queue with its dead-letter queue and its mapping.
QUEUES = [
    ("IngestQueue", "IngestDeadLetterQueue", "IngestMapping"),
    ("IngestFifoQueue", "IngestFifoDeadLetterQueue", "IngestFifoMapping"),
]
NONE = {"Ref": "AWS::NoValue"}


def arn(name: str) -> Json:
    return {"Fn::GetAtt": [name, "Arn"]}


def senders(policy: str) -> list[Json]:
    """The statements of a queue's policy that allow something, those under a condition with its name in `If`."""
    found = []
    for statement in RESOURCES[policy]["PolicyDocument"]["Statement"]:
        condition, allowed, other = statement.get("Fn::If", ("", statement, NONE))
        assert other == NONE
        found += [{**allowed, "If": condition}] if allowed["Effect"] == "Allow" else []
    return found


@pytest.mark.parametrize(("queue", "dead", "mapping"), QUEUES)
def test_message_that_fails_is_reported_alone_and_kept_in_the_end(queue: str, dead: str, mapping: str) -> None:
    assert RESOURCES[mapping]["EventSourceArn"] == arn(queue)
    assert RESOURCES[mapping]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert RESOURCES[queue]["RedrivePolicy"]["deadLetterTargetArn"] == arn(dead)
    assert RESOURCES[queue].get("FifoQueue") == RESOURCES[dead].get("FifoQueue")


@pytest.mark.parametrize(("queue", "dead", "mapping"), QUEUES)
def test_queue_hides_a_message_for_six_times_as_long_as_its_function_may_take(
    queue: str, dead: str, mapping: str
) -> None:
    limit_s = int({**GLOBALS, **FUNCTION}["Timeout"])
    window_s = RESOURCES[mapping].get("MaximumBatchingWindowInSeconds", 0)
    assert RESOURCES[queue]["VisibilityTimeout"] >= 6 * limit_s + window_s


@pytest.mark.parametrize(("queue", "dead", "mapping"), QUEUES)
def test_dead_letter_queue_keeps_messages_longer_than_the_queue_does(queue: str, dead: str, mapping: str) -> None:
    assert RESOURCES[dead]["MessageRetentionPeriod"] > RESOURCES[queue]["MessageRetentionPeriod"]


@pytest.mark.parametrize("queue", [name for names in QUEUES for name in names[:2]])
def test_queue_is_encrypted(queue: str) -> None:
    assert RESOURCES[queue]["SqsManagedSseEnabled"] is True


def test_message_in_order_is_taken_by_itself_so_that_none_is_counted_while_it_waits_for_the_one_before() -> None:
    assert RESOURCES["IngestFifoMapping"]["BatchSize"] == 1
    assert RESOURCES["IngestFifoQueue"]["ContentBasedDeduplication"] is True
    assert RESOURCES["IngestFifoQueue"]["DeduplicationScope"] == "messageGroup"


def test_full_queues_take_no_other_functions_capacity() -> None:
    assert all(RESOURCES[mapping]["ScalingConfig"] == {"MaximumConcurrency": 10} for _, _, mapping in QUEUES)


def test_function_receives_from_the_queues_and_sends_to_the_dead_letter_queues_alone() -> None:
    found = {
        json.dumps(listed): statement["Resource"]
        for policy in FUNCTION["Policies"]
        for statement in policy["Statement"]
        if "sqs:" in json.dumps(listed := statement["Action"]) and "Ingest" in json.dumps(statement["Resource"])
    }
    receiving = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
    assert found == {
        json.dumps(receiving): [arn(queue) for queue, _, _ in QUEUES],
        json.dumps("sqs:SendMessage"): [arn(dead) for _, dead, _ in QUEUES],
    }


# ---- who may send


def test_queue_takes_from_the_stacks_rules_and_from_whom_parameters_list() -> None:
    rules, sources, others = senders("IngestQueuePolicy")
    assert rules["Principal"] == {"Service": "events.amazonaws.com"}
    assert rules["Condition"]["ArnEquals"]["aws:SourceArn"] == [
        arn("InboxObjects"),
        {"Fn::If": ["HearsEvents", arn("BusEvents"), NONE]},
    ]
    assert (sources["If"], others["If"]) == ("TakesFromSources", "TakesFromSenders")
    assert sources["Condition"] == {
        "ArnLike": {"aws:SourceArn": {"Ref": "IngestSourceArns"}},
        "StringEqualsIfExists": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
    }
    assert others["Principal"] == {"AWS": {"Ref": "IngestSenderArns"}}
    assert {each["Action"] for each in (rules, sources, others)} == {"sqs:SendMessage"}


def test_queue_that_keeps_an_order_takes_from_whom_parameters_list() -> None:
    assert [each["If"] for each in senders("IngestFifoQueuePolicy")] == ["TakesFromSources", "TakesFromSenders"]


@pytest.mark.parametrize(
    ("condition", "parameter"),
    [
        ("HearsEvents", "IngestEventSources"),
        ("TakesFromSources", "IngestSourceArns"),
        ("TakesFromSenders", "IngestSenderArns"),
        ("ReportsDaily", "DailyReportSchedule"),
    ],
)
def test_source_is_off_until_its_parameter_is_given(condition: str, parameter: str) -> None:
    assert TEMPLATE["Parameters"][parameter]["Default"] == ""
    [equals] = TEMPLATE["Conditions"][condition]["Fn::Not"]
    assert {"Ref": parameter} in (equals["Fn::Equals"][0], *equals["Fn::Equals"][0].get("Fn::Join", ["", ""])[1:])
    assert equals["Fn::Equals"][1] == ""


# ---- what is sent


def test_inbox_tells_of_its_objects_and_is_closed_to_the_public() -> None:
    inbox = RESOURCES["InboxBucket"]
    assert inbox["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert all(inbox["PublicAccessBlockConfiguration"].values())
    assert TEMPLATE["Resources"]["InboxBucket"]["DeletionPolicy"] == "Retain"
    assert RESOURCES["InboxObjects"]["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": [{"Ref": "InboxBucket"}]}},
    }
    assert "EventBusName" not in RESOURCES["InboxObjects"]  # S3 tells the default bus


@pytest.mark.parametrize("rule", ["InboxObjects", "BusEvents"])
def test_rule_sends_whole_events_to_the_queue(rule: str) -> None:
    [target] = RESOURCES[rule]["Targets"]
    assert (target["Arn"], target["DeadLetterConfig"]) == (arn("IngestQueue"), {"Arn": arn("IngestDeadLetterQueue")})
    assert not {"Input", "InputPath", "InputTransformer"} & set(target)


def test_schedule_sends_an_event_that_its_rule_takes_and_that_is_the_same_when_it_is_sent_again() -> None:
    target = RESOURCES["DailyReport"]["Target"]
    content = json.loads(target["Input"])
    [event] = events_in(content) or []
    rule = rule_for(event, load_rules(ROOT / "catalog" / TRIGGERS_FILE))
    assert (target["Arn"], rule.name if rule else None) == (arn("IngestQueue"), "daily_report")
    assert set(re.findall(r"<aws\.scheduler\.([a-z-]+)>", content["id"])) == {"schedule-arn", "scheduled-time"}


def test_function_has_what_its_rules_and_queues_need() -> None:
    variables = FUNCTION["Environment"]["Variables"]
    assert variables["INBOX_BUCKET"] == {"Ref": "InboxBucket"}
    names = ("INGEST_QUEUE_URL", "INGEST_DEAD_LETTER_QUEUE_URL", "INGEST_FIFO_QUEUE_URL")
    assert [variables[name]["Ref"] for name in (*names, "INGEST_FIFO_DEAD_LETTER_QUEUE_URL")] == [
        "IngestQueue",
        "IngestDeadLetterQueue",
        "IngestFifoQueue",
        "IngestFifoDeadLetterQueue",
    ]
