"""Messages of the queues: each starts the runs of its jobs, comes again, or is put aside with the reason.

A message fails alone, in a FIFO queue with those behind it in its group. One that is broken comes three times within
seconds; one whose session is busy, or that a service does not let through, waits for up to a day. Then it is put into
the dead-letter queue by our own hand, since SQS, which does so as a last resort, can write no reason onto it.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from stepagent.api.requests import JobRequest
from stepagent.api.service import join_job, start_job
from stepagent.clock import now
from stepagent.errors import RecordUnavailable, RequestError
from stepagent.observe import logger
from stepagent.runs import Principal, Run
from stepagent.settings import settings
from stepagent.triggers.dead_letters import first_id, hide, is_fifo, put_aside
from stepagent.triggers.events import Event
from stepagent.triggers.failures import Failure, failure_of, hidden_s
from stepagent.triggers.jobs import job_of, read_message

_standard = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
_fifo = SqsFifoPartialProcessor(skip_group_on_error=True)
# Where all of them fail it reports all of them, too: an error would make a bad message look like a broken function.
_fifo.raise_on_entire_batch_failure = False


def take_messages(event: dict[str, Any]) -> dict[str, Any]:
    """Starts what the messages of an event of SQS ask for; returns which of them come again."""
    in_order = any(is_fifo(SQSRecord(record)) for record in event.get("Records", ()))
    return dict(process_partial_response(event, _start_from_message, _fifo if in_order else _standard))


def _start_from_message(record: SQSRecord) -> None:
    """Starts the runs that a message asks for. One whose runs were started, or that is put aside, is acknowledged.

    Raises:
        Exception: SQS delivers the message again.
    """
    try:
        for asked in read_message(record.body.encode()):
            _start(asked, record)
    except Exception as error:
        if not _is_put_aside(record, error):
            raise


def _start(asked: JobRequest | Event, record: SQSRecord) -> None:
    owner, group = Principal(settings().ingest_principal), _group_of(record)
    match asked:
        case Event():
            run = _run_of_event(asked, owner, group)
        case JobRequest():
            run = start_job(asked.as_chat(group), owner, asked.message_id or first_id(record))
    logger.info("message taken", extra={"message_id": record.message_id, "run_id": run.run_id})


def _run_of_event(event: Event, owner: Principal, group: str | None) -> Run:
    """The run that an event starts, or the one that it started: rules and objects may have changed since."""
    try:
        return start_job(job_of(event).as_chat(group), owner, event.key)
    except RequestError:
        run = join_job(owner, event.key)
        if run is None:
            raise
        return run


def _is_put_aside(record: SQSRecord, error: Exception) -> bool:
    """Logs why a message failed, and puts it aside or sees that it comes again in time."""
    failure, receives = failure_of(error), _receives(record)
    again_s = hidden_s(failure, receives, _waited(record))
    _log(record, failure, again_s, error)
    try:
        if again_s is None:
            return put_aside(record, failure, receives)
        hide(record, again_s)
    except RecordUnavailable as problem:  # then it comes again when its queue says
        logger.warning("queue not reached", extra={"message_id": record.message_id, "reason": problem.message})
    return False


def _log(record: SQSRecord, failure: Failure, again_s: int | None, error: Exception) -> None:
    details = {
        "message_id": record.message_id,
        "receives": _receives(record),
        "again_s": again_s,
        "code": failure.code,  # why in words, which may quote the message, says its dead letter
    }
    if failure.waits and again_s is not None:
        logger.info("message waits", extra=details)
    else:
        logger.error("message failed", exc_info=failure.code == type(error).__name__, extra=details)


def _group_of(record: SQSRecord) -> str | None:
    """The session of a job of a FIFO queue that names none. Elsewhere a group is a tenant, for fair queues."""
    return record.raw_event.get("attributes", {}).get("MessageGroupId") if is_fifo(record) else None


def _receives(record: SQSRecord) -> int:
    return int(record.raw_event.get("attributes", {}).get("ApproximateReceiveCount", 1))


def _waited(record: SQSRecord) -> timedelta:
    first_ms = record.raw_event.get("attributes", {}).get("ApproximateFirstReceiveTimestamp")
    first = datetime.fromtimestamp(int(first_ms) / 1000, UTC) if first_ms else now()
    return now() - first
