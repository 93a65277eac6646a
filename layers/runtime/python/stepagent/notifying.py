"""What leaves the stack for anybody to hear: events on a bus of EventBridge, and schedules of reminders.

An event of a question has ids and the question's own words, never what a call would do; that of a run has ids, how it
ended and what it cost, nothing that was said. Whoever may know more reads it by its id, with a key of their own. All
are hints, and the journal is the record: what cannot be sent is logged, and nobody waits for it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepagent.errors import StepAgentError
from stepagent.interactions import Interaction, InteractionStatus
from stepagent.observe import logger
from stepagent.replies.result import event_id, facts_of
from stepagent.runs import InteractionId, Run, RunStatus
from stepagent.settings import settings
from stepagent.store.questions import load_question
from stepagent.store.runs import require_run

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient
    from types_boto3_scheduler.client import EventBridgeSchedulerClient
    from types_boto3_scheduler.type_defs import TargetTypeDef

SOURCE = "stepagent"
ToldOfQuestion = Literal["Interaction Required", "Interaction Reminder", "Interaction Resolved"]
ToldOfRun = Literal["Run Waiting", "Run Completed", "Run Failed", "Run Cancelled"]
Told = ToldOfQuestion | ToldOfRun

_ENDS: dict[RunStatus, ToldOfRun] = {
    RunStatus.COMPLETED: "Run Completed",
    RunStatus.FAILED: "Run Failed",
    RunStatus.CANCELLED: "Run Cancelled",
}
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


def notify(told: ToldOfQuestion, interaction: Interaction) -> None:
    """Puts one event about a question on the bus; does nothing in a deployment without one.

    Where a run begins to wait for people with a question that is asked, a second event tells that.
    """
    subject = {"interaction_id": interaction.interaction_id}
    with _logged(told, subject):
        if not settings().event_bus_name:
            return
        followed = require_run(interaction.places[-1].run_id)
        with _logged(told, subject):  # what hinders the one does not keep the other back
            _put(told, detail_of(interaction, followed), subject)
        if told == "Interaction Required":
            _notify_waiting(interaction, followed)


def _notify_waiting(interaction: Interaction, run: Run) -> None:
    """Tells that a run waits for people since it asks this; does nothing where it waited before."""
    subject = {"run_id": run.run_id}
    with _logged("Run Waiting", subject):
        if interaction.interaction_id in run.pending and _asks_first(interaction, run):
            told_once = f"{run.run_id}.waiting.{interaction.interaction_id}"
            _put("Run Waiting", {"id": told_once, **facts_of(run)}, subject)


def notify_end(run: Run) -> None:
    """Tells how a run ended. Told again, it is the same event, which `id` in its detail tells."""
    told, subject = _ENDS[run.status], {"run_id": run.run_id}
    with _logged(told, subject):
        if settings().event_bus_name:
            _put(told, {"id": event_id(run), **facts_of(run)}, subject)


def _asks_first(interaction: Interaction, run: Run) -> bool:
    """Whether no question that a run waits with is older: of those asked at the same time, one begins the waiting.

    The others are read, but no more than it takes: an answer may stand there that its run was not cleared of.
    """
    others = (load_question(question) for question in run.pending if question != interaction.interaction_id)
    open_ones = (each.interaction for each in others if each and each.status is InteractionStatus.PENDING)
    return all(_asked(interaction) < _asked(other) for other in open_ones)


def _asked(interaction: Interaction) -> tuple[datetime, InteractionId]:
    return interaction.created_at, interaction.interaction_id


def _put(told: Told, detail: dict[str, Any], subject: Mapping[str, str]) -> None:
    [answer] = events().put_events(
        Entries=[
            {
                "EventBusName": settings().event_bus_name,
                "Source": SOURCE,
                "DetailType": told,
                "Detail": json.dumps(detail, ensure_ascii=False),
            }
        ]
    )["Entries"]
    if code := answer.get("ErrorCode"):  # the request itself succeeds
        _log(told, subject, code)


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
    with _logged("Interaction Reminder", {"interaction_id": question}):
        try:
            scheduler().create_schedule(
                Name=f"{question}-{number}",
                GroupName=settings().reminder_group,
                ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",  # in UTC, as no other zone is named
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target=_target(question, number),
            )
        except scheduler().exceptions.ConflictException:  # its state was entered before
            return


def _target(question: InteractionId, number: int) -> "TargetTypeDef":
    """What a schedule invokes and, if the deployment has a queue for it, where it lays aside what it cannot."""
    target: TargetTypeDef = {
        "Arn": settings().remind_function_arn,
        "RoleArn": settings().remind_role_arn,
        "Input": json.dumps({"interaction_id": question, "number": number}),
        "RetryPolicy": _RETRIES,
    }
    if queue_arn := settings().unheard_events_queue_arn:
        target["DeadLetterConfig"] = {"Arn": queue_arn}
    return target


def _in_one_line(text: str) -> str:
    line = " ".join(text.split()).translate(_UNQUOTED)
    return line if len(line) <= _DESCRIPTION_CHARS else f"{line[: _DESCRIPTION_CHARS - 1]}…"


@contextmanager
def _logged(told: Told, subject: Mapping[str, str]) -> Iterator[None]:
    """Goes on without what cannot be sent, whatever is in the way."""
    try:
        yield
    except ClientError as error:
        _log(told, subject, error.response["Error"]["Code"])
    except (BotoCoreError, StepAgentError) as error:
        _log(told, subject, type(error).__name__)


def _log(told: Told, subject: Mapping[str, str], reason: str) -> None:
    logger.error("not sent to EventBridge", extra={"event": told, **subject, "reason": reason})
