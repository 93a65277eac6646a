"""The places to which this deployment lets results go. What it does not allow is refused when the run is asked for."""

import re
from typing import NamedTuple

from stepagent.errors import ConfigurationError, InvalidRequest
from stepagent.queues import queue_url
from stepagent.replies.reply_to import ReplyTo
from stepagent.runs import RunId
from stepagent.settings import settings
from stepagent.web.errors import WebRefused
from stepagent.web.permission import Permission
from stepagent.web.urls import Url

OWN_PREFIX = "replies/"  # of the stack's bucket: beside it stands what is nobody's but ours

_KEY = re.compile(r"[A-Za-z0-9!_.*'()=/-]+")  # what S3 calls safe, with `=` for partitions
_NO_FOLDERS = {"", ".", ".."}  # of a path; the last two mean another one to some who read it
_MAX_KEY_CHARS = 900  # of 1,024, with the run's id behind it


class Place(NamedTuple):
    """An object."""

    bucket: str
    key: str


def check_reply_to(reply_to: ReplyTo) -> None:
    """Passes if results may go there.

    Raises:
        InvalidRequest: they may not; the message names the parameter that allows it.
    """
    match reply_to:
        case ReplyTo(queue_url=str() as url):
            queue_arn_of(url)
        case ReplyTo(s3_prefix=str() as prefix):
            object_at(prefix, RunId("run"))
        case ReplyTo(webhook=str() as url):
            webhook_at(url)


def queue_arn_of(url: str) -> str:
    """The ARN of the listed queue that has this URL.

    Raises:
        InvalidRequest: none has.
    """
    for arn in _listed(settings().reply_queue_arns):
        if queue_url(arn) == url:
            return arn
    raise _not_allowed("queue_url", "This queue takes no replies: the parameter ReplyQueueArns does not list it.")


def object_at(prefix: str, run_id: RunId) -> Place:
    """The object that holds the result of a run.

    Raises:
        InvalidRequest: it may not stand there.
    """
    other, _, path = prefix.removeprefix("s3://").partition("/") if prefix.startswith("s3://") else ("", "", prefix)
    key = f"{path.strip('/')}/{run_id}.json"
    if not _KEY.fullmatch(path) or _NO_FOLDERS & set(path.removesuffix("/").split("/")) or len(path) > _MAX_KEY_CHARS:
        raise _not_allowed("s3_prefix", "It must be a plain prefix such as replies/orders, or s3://bucket/orders.")
    if other in ("", settings().bucket):
        if not f"{path}/".startswith(OWN_PREFIX):
            raise _not_allowed("s3_prefix", f"In the stack's bucket it must begin with {OWN_PREFIX}.")
        return Place(settings().bucket, key)
    arn = f"{other}/{key}"
    for listed in _listed(settings().reply_object_arns):
        if listed.endswith("/*") and arn.startswith(listed.rpartition(":::")[2].removesuffix("*")):
            return Place(other, key)
    raise _not_allowed("s3_prefix", "No replies may stand there: the parameter ReplyObjectArns does not list it.")


def webhook_at(url: str) -> tuple[Url, Permission]:
    """The webhook, and the permission to reach it.

    Raises:
        InvalidRequest: it is no plain URL, or no host that is allowed.
        ConfigurationError: the list of hosts is none.
    """
    try:
        permission = Permission.parse(settings().webhook_allowed_hosts, settings().http_allow_private)
    except ValueError as error:
        raise ConfigurationError(f"The parameter WebhookAllowedHosts is wrong: {error}") from error
    try:
        parsed = Url.parse(url)
        permission.check(parsed)
        if parsed.address:
            permission.check_address(parsed, parsed.address)
    except WebRefused as error:
        why = f"{error.message} Whoever deploys this can allow hosts with the parameter WebhookAllowedHosts."
        raise _not_allowed("webhook", why) from error
    return parsed, permission


def _listed(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _not_allowed(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"'reply_to.{field}': {why}", f"reply_to.{field}", "reply_to_not_allowed")
