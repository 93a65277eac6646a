"""What is done to messages that failed: they are hidden for a time, or kept in the dead-letter queue."""

from typing import NamedTuple

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from stepagent.queues import hide_message, send_to_own_queue
from stepagent.settings import settings
from stepagent.triggers.failures import Failure

_FIRST_ID = "MessageId"


class Queue(NamedTuple):
    """A queue and its dead-letter queue, by URL; "" in a deployment without them."""

    url: str
    dead_letter_url: str


def is_fifo(record: SQSRecord) -> bool:
    return str(record.raw_event.get("eventSourceARN", "")).endswith(".fifo")


def first_id(record: SQSRecord) -> str:
    """The id of a message; of one that was put aside and moved back, and so has another, the one that it had first."""
    kept = record.raw_event.get("messageAttributes", {}).get(_FIRST_ID, {})
    return str(kept.get("stringValue") or record.message_id)


def hide(record: SQSRecord, seconds: int) -> None:
    """Lets a message come again after that time, instead of that of its queue.

    Raises:
        RecordUnavailable: the queue did not take the request.
    """
    url, receipt = _queue_of(record).url, record.raw_event.get("receiptHandle")
    if url and receipt:
        hide_message(url, receipt, seconds)


def put_aside(record: SQSRecord, failure: Failure, receives: int) -> bool:
    """Sends a message as it was, with why it failed, to the dead-letter queue; False where there is none.

    Whoever acknowledges it only then loses nothing: at worst it is kept twice.

    Raises:
        RecordUnavailable: the queue did not take it.
    """
    url = _queue_of(record).dead_letter_url
    if url:
        notes = {
            "ErrorCode": failure.code,
            "Reason": failure.reason,
            _FIRST_ID: first_id(record),
            "Receives": str(receives),
        }
        group = record.raw_event.get("attributes", {}).get("MessageGroupId", record.message_id)
        send_to_own_queue(url, record.body, notes, group=group, once=record.message_id)
    return bool(url)


def _queue_of(record: SQSRecord) -> Queue:
    if is_fifo(record):
        return Queue(settings().ingest_fifo_queue_url, settings().ingest_fifo_dead_letter_queue_url)
    return Queue(settings().ingest_queue_url, settings().ingest_dead_letter_queue_url)
