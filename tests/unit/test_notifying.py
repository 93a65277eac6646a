"""What leaves the stack about questions: events with ids and words, and schedules that remind."""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.stub import Stubber

from stepagent import notifying
from stepagent.announcing import announce_question, announce_reminder, announce_resolved
from stepagent.approvals import digest_of
from stepagent.interactions import InteractionStatus
from stepagent.messages import CallId, UserMessage
from stepagent.notifying import detail_of, events, schedule_reminder, scheduler
from stepagent.questions import ChoiceQuestion, ask_approval, make_question
from stepagent.runs import CallAddress, RunId
from stepagent.store.journal import read_events
from stepagent.store.runs import create_run
from tests.builders import NOON, OWNER, RUN_ID, a_run, an_interaction
from tests.tables import empty_tables, tables_in_memory

QUESTION = an_interaction().interaction_id
CHILD_ID = RunId("run_0child_1")
SECRET = "the secret value"


class Bus:
    """The events that were put. Stands for the client of EventBridge."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.answer: Callable[[], dict[str, Any]] = lambda: {"Entries": [{"EventId": "1"}]}

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 (the client's own name)
        self.entries += Entries
        return self.answer()

    @property
    def details(self) -> list[dict[str, Any]]:
        return [json.loads(entry["Detail"]) for entry in self.entries]


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]) -> Bus:
    """A bus that takes all, and a run that asks."""
    empty_tables()
    create_run(a_run(session_id="my session"), [UserMessage(text="Do it.")])
    set_environment(EVENT_BUS_NAME="ours")
    put = Bus()
    monkeypatch.setattr(notifying, "events", lambda: put)
    return put


# ---- events


def test_one_event_names_question_run_and_owner_when_a_question_is_asked(bus: Bus) -> None:
    announce_question(an_interaction())
    [entry] = bus.entries
    assert (entry["EventBusName"], entry["Source"], entry["DetailType"]) == (
        "ours",
        "stepagent",
        "Interaction Required",
    )
    assert bus.details == [
        {
            "interaction_id": QUESTION,
            "run_id": RUN_ID,
            "session_id": "my session",
            "agent": "helper",
            "tool": "ask",
            "type": "text",
            "description": "Which colour?",
            "status": "pending",
            "expires_at": "2030-01-01T13:00:00+00:00",
            "owner": OWNER,
        }
    ]


@pytest.mark.parametrize("status", ["answered", "expired", "cancelled"])
def test_event_says_how_it_ended_when_a_question_is_open_no_more(bus: Bus, status: str) -> None:
    announce_resolved(an_interaction(status=InteractionStatus(status)))
    assert [entry["DetailType"] for entry in bus.entries] == ["Interaction Resolved"]
    assert bus.details[0]["status"] == status


def test_event_reminds_when_a_question_still_waits(bus: Bus) -> None:
    announce_reminder(an_interaction())
    assert [entry["DetailType"] for entry in bus.entries] == ["Interaction Reminder"]
    assert [event.type for event in read_events(RUN_ID, 1)] == ["interaction.reminder"]


def test_event_is_one_and_of_the_run_at_the_top_when_an_agent_below_asks(bus: Bus) -> None:
    top = CallAddress(run_id=RUN_ID, call_id=CallId("call_1_1_0"))
    announce_question(an_interaction(run_id=CHILD_ID, top=top))
    assert [(detail["run_id"], detail["session_id"]) for detail in bus.details] == [(RUN_ID, "my session")]
    assert [event.type for run in (RUN_ID, CHILD_ID) for event in read_events(run, 0)].count(
        "interaction.required"
    ) == 2


def test_event_has_the_words_of_a_question_and_nothing_of_a_call_that_waits_for_approval() -> None:
    arguments = {"secret_name": SECRET}
    detail = detail_of(an_interaction(ask_approval("send", arguments, {"to": SECRET}, digest_of(arguments))), a_run())
    assert detail["description"] == "May send run?"
    assert SECRET not in json.dumps(detail)
    assert "secret_name" not in json.dumps(detail)


def test_event_has_neither_options_nor_answer() -> None:
    options = [{"key": SECRET, "value": SECRET}]
    question = ChoiceQuestion.model_validate({"description": "Which?", "options": options})
    assert SECRET not in json.dumps(detail_of(an_interaction(question, answer=SECRET), a_run()))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Which\n\n colour?\t", "Which colour?"),
        ('Say "yes"\\no', "Say 'yes'/no"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "…"),
    ],
)
def test_description_is_one_short_line_that_a_template_can_quote(asked: str, told: str) -> None:
    question = make_question(None, {"question": asked})
    assert detail_of(an_interaction(question), a_run())["description"] == told


def test_nothing_is_put_when_there_is_no_bus(bus: Bus, set_environment: Callable[..., None]) -> None:
    set_environment(EVENT_BUS_NAME="")
    announce_question(an_interaction())
    assert bus.entries == []


def refused() -> dict[str, Any]:
    return {"Entries": [{"ErrorCode": "InternalFailure", "ErrorMessage": "no"}]}


def denied() -> dict[str, Any]:
    raise ClientError({"Error": {"Code": "AccessDenied", "Message": SECRET}}, "PutEvents")


def unreachable() -> dict[str, Any]:
    raise EndpointConnectionError(endpoint_url="https://events")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(refused, "InternalFailure"), (denied, "AccessDenied"), (unreachable, "EndpointConnectionError")],
)
def test_question_is_told_and_the_reason_logged_when_the_event_is_not_taken(
    bus: Bus, caplog: pytest.LogCaptureFixture, answer: Callable[[], dict[str, Any]], reason: str
) -> None:
    bus.answer = answer
    with caplog.at_level(logging.ERROR):
        announce_question(an_interaction())
    assert [event.type for event in read_events(RUN_ID, 1)] == ["interaction.required"]
    assert [vars(record)["reason"] for record in caplog.records] == [reason]
    assert SECRET not in caplog.text


def test_question_is_told_when_the_run_that_is_followed_cannot_be_read(bus: Bus) -> None:
    announce_question(an_interaction(run_id=CHILD_ID))
    assert bus.entries == []
    assert [event.type for event in read_events(CHILD_ID, 0)] == ["interaction.required"]


def test_nobody_waits_long_when_no_event_is_taken() -> None:
    for client in (events(), scheduler()):
        config: Any = client.meta.config
        longest_s = (config.connect_timeout + config.read_timeout) * config.retries["total_max_attempts"]
        assert longest_s <= 6


# ---- schedules

FUNCTION_ARN = "arn:aws:lambda:eu-central-1:123456789012:function:remind"
ROLE_ARN = "arn:aws:iam::123456789012:role/remind"


@pytest.fixture
def schedules(set_environment: Callable[..., None]) -> Iterator[Stubber]:
    """The service of schedules, which takes only what its model takes, and is asked for all that a test lays out."""
    set_environment(REMINDER_GROUP="reminders", REMIND_FUNCTION_ARN=FUNCTION_ARN, REMIND_ROLE_ARN=ROLE_ARN)
    with Stubber(scheduler()) as stubbed:
        yield stubbed
        stubbed.assert_no_pending_responses()


def test_schedule_fires_once_at_the_second_and_deletes_itself(schedules: Stubber) -> None:
    expected = {
        "Name": f"{QUESTION}-2",
        "GroupName": "reminders",
        "ScheduleExpression": "at(2030-01-01T12:10:05)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": FUNCTION_ARN,
            "RoleArn": ROLE_ARN,
            "Input": json.dumps({"interaction_id": QUESTION, "number": 2}),
            "RetryPolicy": {"MaximumEventAgeInSeconds": 3_600, "MaximumRetryAttempts": 10},
        },
    }
    schedules.add_response("create_schedule", {"ScheduleArn": "arn"}, expected)
    schedule_reminder(QUESTION, 2, NOON + timedelta(minutes=10, seconds=5))


def test_schedule_that_is_there_already_is_left_as_it_is(schedules: Stubber, caplog: pytest.LogCaptureFixture) -> None:
    schedules.add_client_error("create_schedule", "ConflictException")
    schedule_reminder(QUESTION, 1, NOON)
    assert caplog.records == []


def test_question_stays_and_the_reason_is_logged_when_no_schedule_can_be_made(
    schedules: Stubber, caplog: pytest.LogCaptureFixture
) -> None:
    schedules.add_client_error("create_schedule", "ThrottlingException")
    schedule_reminder(QUESTION, 1, NOON)
    assert [vars(record)["reason"] for record in caplog.records] == ["ThrottlingException"]


def test_no_schedule_is_made_when_the_function_may_plan_none(
    schedules: Stubber, set_environment: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    set_environment(REMINDER_GROUP="")
    schedule_reminder(QUESTION, 1, NOON)
    assert caplog.records == []  # the service of this test takes nothing
