"""Queues of SQS: messages put into them, and messages that come again later."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepagent.errors import RecordUnavailable

if TYPE_CHECKING:
    from types_boto3_sqs.client import SQSClient

_CONFIG = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})
_NOTE_CHARS = 1_000
_MAX_BYTES = 1_048_576  # of a message, its attributes included


@cache
def sqs(region: str | None = None) -> "SQSClient":
    """A client for a region, or for our own."""
    return boto3.client("sqs", region_name=region, config=_CONFIG)


def queue_url(arn: str) -> str:
    """The URL of a queue, as the service spells it."""
    _, _, _, region, account, name = arn.split(":", 5)
    return f"{sqs(region).meta.endpoint_url}/{account}/{name}"


def send_to_queue(arn: str, body: str, *, group: str, once: str) -> None:
    """Puts a message into any queue; in one that keeps an order, into its group, and there once within five minutes.

    Raises:
        RecordUnavailable: the queue did not take it, and why.
    """
    with _translated():
        sqs(arn.split(":")[3]).send_message(QueueUrl=queue_url(arn), MessageBody=body, **_in_order(arn, group, once))


def send_to_own_queue(url: str, body: str, notes: Mapping[str, str] = {}, *, group: str = "", once: str = "") -> None:
    """Puts a message into a queue of this stack, with notes as its attributes, or without where both are too much.

    Args:
        url: of the queue.
        body: the message.
        notes: texts by their names, cut where they are long.
        group: as of `send_to_queue`; needed where the queue keeps an order, as is `once`.
        once: as of `send_to_queue`.

    Raises:
        RecordUnavailable: the queue did not take it.
    """
    attributes = _as_attributes(notes, _MAX_BYTES - len(body.encode()))
    with _translated():
        sqs().send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes, **_in_order(url, group, once))


def hide_message(url: str, receipt: str, hidden_s: int) -> None:
    """Hides a message that is being worked on for so many seconds, behind which it comes again.

    Raises:
        RecordUnavailable: it comes again when the queue's own time is over.
    """
    with _translated():
        sqs().change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=hidden_s)


def _in_order(queue: str, group: str, once: str) -> Any:
    return {"MessageGroupId": group, "MessageDeduplicationId": once} if queue.endswith(".fifo") else {}


def _as_attributes(notes: Mapping[str, str], room_bytes: int) -> Any:
    """All of the notes, or none: a message that is as large as one may be is kept without them."""
    attributes = {name: {"DataType": "String", "StringValue": _as_note(text)} for name, text in notes.items()}
    size = sum(len("".join((name, *attribute.values())).encode()) for name, attribute in attributes.items())
    return attributes if size <= room_bytes else {}


def _as_note(text: str) -> str:
    """The text without what SQS refuses in an attribute."""
    return "".join(each if each.isprintable() else " " for each in text)[:_NOTE_CHARS]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise RecordUnavailable(f"SQS did not take a request ({error.response['Error']['Code']}).") from error
    except BotoCoreError as error:
        raise RecordUnavailable(f"SQS cannot be reached ({type(error).__name__}).") from error
