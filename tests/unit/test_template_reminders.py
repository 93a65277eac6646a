"""Schedules that functions make as they run: where what they could not hand over is kept, and by which right."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from stepagent.notifying import schedule_reminder, scheduler
from stepagent.settings import Settings
from tests.builders import NOON, an_interaction
from tests.functions import ROOT
from tests.permissions import actions_of_code
from tests.translated import allowed, resources
from tests.unit.test_template import FUNCTIONS

QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:unheard"
KEPT_IN = {"Fn::GetAtt": ["UnheardEventsQueue", "Arn"]}
SCHEDULING = [
    name
    for name, function in FUNCTIONS.items()
    if "scheduler:CreateSchedule" in actions_of_code(ROOT / function["CodeUri"])
]


@pytest.mark.parametrize(("queue_arn", "kept"), [(QUEUE_ARN, {"DeadLetterConfig": {"Arn": QUEUE_ARN}}), ("", {})])
def test_reminder_that_cannot_be_handed_over_is_kept_where_there_is_a_queue_for_it(
    queue_arn: str, kept: dict[str, Any], set_environment: Callable[..., None]
) -> None:
    set_environment(REMINDER_GROUP="g", REMIND_FUNCTION_ARN="arn:remind", REMIND_ROLE_ARN="arn:role")
    set_environment(UNHEARD_EVENTS_QUEUE_ARN=queue_arn)
    whatever = dict.fromkeys(("Name", "ScheduleExpression", "FlexibleTimeWindow", "ActionAfterCompletion"), ANY)
    target = {"Arn": "arn:remind", "RoleArn": "arn:role", "Input": ANY, "RetryPolicy": ANY, **kept}
    with Stubber(scheduler()) as stubbed:  # takes only what the service's model has
        stubbed.add_response("create_schedule", {"ScheduleArn": "a"}, {**whatever, "GroupName": "g", "Target": target})
        schedule_reminder(an_interaction().interaction_id, 1, NOON)
        stubbed.assert_no_pending_responses()


def test_ask_is_the_function_that_schedules() -> None:
    assert SCHEDULING == ["AskFunction"]


@pytest.mark.parametrize("name", SCHEDULING)
def test_function_that_schedules_knows_the_queue_for_what_could_not_be_handed_over(name: str) -> None:
    variable = str(Settings.model_fields["unheard_events_queue_arn"].validation_alias)
    assert FUNCTIONS[name]["Environment"]["Variables"][variable] == KEPT_IN


@pytest.mark.parametrize("name", SCHEDULING)
def test_role_of_the_schedules_may_send_to_that_queue_alone(name: str) -> None:
    role = FUNCTIONS[name]["Environment"]["Variables"]["REMIND_ROLE_ARN"]["Fn::GetAtt"][0]
    sending = [e.statement for e in allowed() if e.resource == role and "sqs:" in json.dumps(e.statement["Action"])]
    assert [(each["Action"], each["Resource"]) for each in sending] == [("sqs:SendMessage", KEPT_IN)]
    assert "FifoQueue" not in resources()["UnheardEventsQueue"]["Properties"]  # a schedule takes no other
