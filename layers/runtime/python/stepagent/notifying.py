"""What leaves the stack about questions to people: events on a bus of EventBridge, and schedules of reminders.

An event has ids and the question's own words, never what a call would do: whoever may know more reads the interaction
by its id, with a key of their own. Both are hints, and the journal is the record: what cannot be sent is logged, and
nobody waits for it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepagent.errors import StepAgentError
from stepagent.interactions import Interaction
from stepagent.observe import logger
from stepagent.runs import InteractionId, Run
from stepagent.settings import settings
from stepagent.store.runs import require_run

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient
    from types_boto3_scheduler.client import EventBridgeSchedulerClient

SOURCE = "stepagent"
Told = Literal["Interaction Required", "Interaction Reminder", "Interaction Resolved"]

_DESCRIPTION_CHARS = 300
# An input transformer of a rule puts values into its text as they are, so that these would break its JSON.
_UNQUOTED = str.maketrans({'"': "'", "\\": "/"})
# A person waits for the question, or its run for the answer: it must not take long to see that nobody takes an event.
_CONFIG = Config(connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2})
_RETRIES: Any = {"MaximumEventAgeInSeconds": 3_600, "MaximumRetryAttempts": 10}


@cache
def events() -> "EventBridgeClient":
    return boto3.client("events", config=_CONFIG)


@cache
def scheduler() -> "EventBridgeSchedulerClient":
    return boto3.client("scheduler", config=_CONFIG)


def notify(told: Told, interaction: Interaction) -> None:
    """Puts one event about a question on the bus; does nothing in a deployment without one."""
    if not settings().event_bus_name:
        return
    with _logged(told, interaction.interaction_id):
        followed = require_run(interaction.places[-1].run_id)
        [answer] = events().put_events(
            Entries=[
                {
                    "EventBusName": settings().event_bus_name,
                    "Source": SOURCE,
                    "DetailType": told,
                    "Detail": json.dumps(detail_of(interaction, followed), ensure_ascii=False),
                }
            ]
        )["Entries"]
        if code := answer.get("ErrorCode"):  # the request itself succeeds
            _log(told, interaction.interaction_id, code)


def detail_of(interaction: Interaction, followed: Run) -> dict[str, Any]:
    """What others may know of a question: no arguments, no options, no answer, no task token.

    Args:
        interaction: the question as it stands.
        followed: the run that its owner follows, which is another one than that which asks where an agent asks.
    """
    return {
        "interaction_id": interaction.interaction_id,
        "run_id": followed.run_id,
        "session_id": followed.session_id,
        "agent": followed.agent.name,
        "tool": interaction.tool,
        "type": interaction.question.type,
        "description": _in_one_line(interaction.question.description),
        "status": interaction.status,
        "expires_at": interaction.expires_at.isoformat(timespec="seconds"),
        "owner": interaction.owner,
    }


def schedule_reminder(question: InteractionId, number: int, at: datetime) -> None:
    """Has the function `remind` invoked with the question's id once, about then. Again for the same number is nothing.

    Args:
        question: of what to remind.
        number: which of the question's reminders, counted from 1.
        at: when, to the second; the service may take up to a minute longer.
    """
    if not settings().reminder_group:
        return
    with _logged("Interaction Reminder", question):
        try:
            scheduler().create_schedule(
                Name=f"{question}-{number}",
                GroupName=settings().reminder_group,
                ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",  # in UTC, as no other zone is named
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target={
                    "Arn": settings().remind_function_arn,
                    "RoleArn": settings().remind_role_arn,
                    "Input": json.dumps({"interaction_id": question, "number": number}),
                    "RetryPolicy": _RETRIES,
                },
            )
        except scheduler().exceptions.ConflictException:  # its state was entered before
            return


def _in_one_line(text: str) -> str:
    line = " ".join(text.split()).translate(_UNQUOTED)
    return line if len(line) <= _DESCRIPTION_CHARS else f"{line[: _DESCRIPTION_CHARS - 1]}…"


@contextmanager
def _logged(told: Told, question: InteractionId) -> Iterator[None]:
    """Goes on without what cannot be sent, whatever is in the way."""
    try:
        yield
    except ClientError as error:
        _log(told, question, error.response["Error"]["Code"])
    except (BotoCoreError, StepAgentError) as error:
        _log(told, question, type(error).__name__)


def _log(told: Told, question: InteractionId, reason: str) -> None:
    logger.error("not sent to EventBridge", extra={"event": told, "interaction_id": question, "reason": reason})
