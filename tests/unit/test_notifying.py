"""What leaves the stack about questions: events with ids and words, and schedules that remind."""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.stub import Stubber

from stepagent import asking, delivering, notifying
from stepagent.announcing import announce_question, announce_reminder, announce_resolved
from stepagent.answering import answer
from stepagent.approvals import digest_of
from stepagent.asking import ask
from stepagent.clock import now
from stepagent.interactions import InteractionStatus
from stepagent.messages import CallId, UserMessage
from stepagent.notifying import detail_of, events, notify_end, schedule_reminder, scheduler
from stepagent.questions import ChoiceQuestion, ask_approval, make_question
from stepagent.runs import CallAddress, Failure, Run, RunId
from stepagent.store import questions
from stepagent.store.journal import read_events
from stepagent.store.runs import create_run, require_run
from stepagent.usage import Usage
from tests.builders import NOON, OWNER, RUN_ID, a_call, a_run, a_tool, an_interaction
from tests.recorded import begin
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


# ---- runs

ASK = a_tool("ask", kind="interactive", target="", parameters={"type": "object"})
FIRST, SECOND = (a_call(place, name="ask", kind="interactive", arguments={"question": "Which?"}) for place in (0, 1))


def waiting(bus: Bus) -> list[str]:
    """The ids of the events that tell that a run waits."""
    return [json.loads(entry["Detail"])["id"] for entry in bus.entries if entry["DetailType"] == "Run Waiting"]


@pytest.fixture
def asking_run(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose turn asks two questions."""
    empty_tables()
    for module in (asking, delivering):
        monkeypatch.setattr(module, "resume_execution", lambda token, next_kind=None: True)
    return begin(a_run(ASK, created_at=now()), FIRST, SECOND)


def test_run_is_told_to_wait_once_however_many_questions_it_has(bus: Bus, asking_run: Run) -> None:
    for call in (SECOND, FIRST):
        ask(RUN_ID, call.call_id, "token")
    assert len(waiting(bus)) == 1
    assert [entry["DetailType"] for entry in bus.entries].count("Interaction Required") == 2


def test_run_is_told_to_wait_again_when_it_waits_anew(bus: Bus, asking_run: Run) -> None:
    ask(RUN_ID, FIRST.call_id, "token")
    [question] = require_run(RUN_ID).pending
    answer(question, OWNER, "blue")
    ask(RUN_ID, SECOND.call_id, "token")
    assert len(set(waiting(bus))) == 2


def test_run_is_told_to_wait_anew_when_an_answer_before_was_not_noted(
    bus: Bus, asking_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(RUN_ID, FIRST.call_id, "token")
    [question] = require_run(RUN_ID).pending
    monkeypatch.setattr(questions, "settle_question", lambda interaction: False)  # its bringer died
    answer(question, OWNER, "blue")
    ask(RUN_ID, SECOND.call_id, "token")
    assert len(set(waiting(bus))) == 2


def test_waiting_is_told_with_the_same_id_when_its_state_is_entered_again(bus: Bus, asking_run: Run) -> None:
    for token in ("one", "two"):
        ask(RUN_ID, FIRST.call_id, token)
    told = waiting(bus)
    assert (len(told), len(set(told))) == (2, 1)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_end_of_a_run_is_told_with_its_cost_and_without_what_was_said(bus: Bus, status: str) -> None:
    failure = Failure(code="model_busy", message=SECRET) if status == "failed" else None
    usage = Usage(input_tokens=7, output_tokens=3, cost_usd=Decimal("0.0000001"))
    told: dict[str, Any] = {
        "status": status,
        "stop_reason": "failed",
        "failure": failure,
        "usage": usage,
        "ended_at": NOON,
    }
    run = a_run(answer=SECRET, metadata={"note": SECRET}, system=SECRET, **told)
    for _ in range(2):
        notify_end(run)
    assert [entry["DetailType"] for entry in bus.entries] == [f"Run {status.title()}"] * 2
    assert {detail["id"] for detail in bus.details} == {f"{RUN_ID}.{status}"}
    assert bus.details[0] == {
        "id": f"{RUN_ID}.{status}",
        "run_id": RUN_ID,
        "session_id": "s",
        "agent": "helper",
        "owner": OWNER,
        "status": status,
        "stop_reason": "failed",
        "failure_code": failure.code if failure else None,
        "usage": {
            "input_tokens": 7,
            "output_tokens": 3,
            "cached_tokens": 0,
            "reasoning_tokens": 0,
            "complete": True,
            "cost_usd": "1E-7",
        },
        "created_at": NOON.isoformat(),
        "ended_at": NOON.isoformat(),
    }


def test_run_ends_and_the_reason_is_logged_when_its_event_is_not_taken(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    bus.answer = unreachable
    notify_end(a_run(status="completed", ended_at=NOON))
    assert [vars(record)["run_id"] for record in caplog.records] == [RUN_ID]


# ---- in the way of an event


def test_nothing_is_put_when_there_is_no_bus(bus: Bus, set_environment: Callable[..., None]) -> None:
    set_environment(EVENT_BUS_NAME="")
    announce_question(an_interaction())
    notify_end(a_run(status="completed", ended_at=NOON))
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
