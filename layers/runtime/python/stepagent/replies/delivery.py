"""Results sent from the queue of replies: tried for a day where that may help, put aside with the reason where not.

What a receiver refuses and what the deployment does not allow is not tried again. Whatever may be mended or may pass
is: a server that is down or busy, a queue that is missing, a secret that cannot be read.
"""

import json
import random
from http import HTTPStatus

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from stepagent.errors import InvalidRequest, NotFound, StepAgentError
from stepagent.observe import logger
from stepagent.queues import hide_message, send_to_own_queue, send_to_queue
from stepagent.replies.places import object_at, queue_arn_of, webhook_at
from stepagent.replies.reply_to import ReplyTo
from stepagent.replies.result import MAX_BYTES, as_json, event_id, result_of, without_answer
from stepagent.replies.webhooks import post_webhook
from stepagent.runs import ENDED, Run, RunId
from stepagent.settings import settings
from stepagent.store.replies import put_reply
from stepagent.store.runs import require_run
from stepagent.telemetry import count_reply
from stepagent.web.errors import WebRefused
from stepagent.web.network import INTERNET, Network

DELAYS_S = (5, 300, 1_800, 7_200, 18_000, 28_800, 28_800)  # behind the first try, the second …: a day in all
_LARGE_PREFIX = "replies/large"
_FINAL = (NotFound, InvalidRequest, WebRefused)
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class NotDelivered(StepAgentError):
    """The result did not arrive. `final` says that another try would not help."""

    code = "not_delivered"

    def __init__(self, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.final = final


def deliver_from_message(record: SQSRecord, network: Network = INTERNET) -> None:
    """Sends the result of the run that a message names. A message of which nothing can come is put aside.

    Raises:
        NotDelivered: it comes again, after the time that its count of tries asks for.
        RecordUnavailable: it comes again when the queue's own time is over.
    """
    run_id, tries = _named_run(record.body), int(record.attributes.approximate_receive_count)
    try:
        _deliver(run_id, network)
    except NotDelivered as failed:
        facts = {"run_id": run_id, "tries": tries, "reason": failed.message}
        if failed.final or tries > len(DELAYS_S):
            logger.error("reply not delivered", extra=facts)
            _put_aside(record.body, failed, tries)
            return
        logger.warning("reply not delivered, to be tried again", extra=facts)
        count_reply("postponed")
        hide_message(
            settings().reply_queue_url, record.receipt_handle, round(DELAYS_S[tries - 1] * random.uniform(1, 1.2))
        )
        raise
    except Exception:  # a fault of ours: the queue's own time passes, and its own count of tries
        logger.exception("reply failed", extra={"run_id": run_id, "tries": tries})
        raise


def _deliver(run_id: str, network: Network) -> None:
    try:
        run = require_run(run_id)
        if run.status not in ENDED or run.reply_to is None:
            raise NotDelivered("The run has not ended, or nobody asked for a reply.", final=True)
        _send(run, run.reply_to, network)
    except NotDelivered:
        raise
    except StepAgentError as error:
        raise NotDelivered(error.message, final=isinstance(error, _FINAL)) from error
    count_reply("delivered")
    logger.info("reply delivered", extra={"run_id": run.run_id, "to": run.reply_to.named[0]})


def _send(run: Run, reply_to: ReplyTo, network: Network) -> None:
    match reply_to:
        case ReplyTo(queue_url=str() as url):
            send_to_queue(queue_arn_of(url), _body(run).decode(), group=run.key.session, once=event_id(run))
        case ReplyTo(s3_prefix=str() as prefix):
            place = object_at(prefix, run.run_id)
            put_reply(place.bucket, place.key, as_json(result_of(run)))
        case ReplyTo(webhook=str() as url):
            parsed, permission = webhook_at(url)
            _check(post_webhook(parsed, permission, event_id(run), _body(run), network))


def _body(run: Run) -> bytes:
    """The result, or, where it is too large for a message, its facts with the address of the whole."""
    result = result_of(run)
    body = as_json(result)
    if len(body) <= MAX_BYTES:
        return body
    bucket, key = settings().bucket, f"{_LARGE_PREFIX}/{run.run_id}.json"
    put_reply(bucket, key, body)
    return as_json(without_answer(result, f"s3://{bucket}/{key}"))


def _check(status: int) -> None:
    """Raises NotDelivered unless the server took it."""
    if not HTTPStatus(200) <= status < HTTPStatus(300):
        passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
        raise NotDelivered(f"The server answered with status {status}.", final=not passing)


def _named_run(body: str) -> RunId:
    try:
        return RunId(str(json.loads(body)["run_id"]))
    except (ValueError, KeyError, TypeError):
        return RunId("")  # no run is named so


def _put_aside(body: str, failed: NotDelivered, tries: int) -> None:
    """Puts a message into the dead-letter queue with the reason; from there it can be moved back as it is."""
    notes = {"Reason": failed.message, "Receives": str(tries)}
    send_to_own_queue(settings().reply_dead_letter_queue_url, body, notes)
    count_reply("undelivered")
