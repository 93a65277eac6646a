"""Events that arrive in the queue, in one form: the envelope of EventBridge, whoever told of them."""

import hashlib
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from stepagent.errors import InvalidRequest

Json = dict[str, Any]

# What S3 calls an event in its own notifications, and what EventBridge calls the same.
_DETAIL_TYPES = {"ObjectCreated": "Object Created", "ObjectRemoved": "Object Deleted"}
_MAX_RECORDS = 10  # in a message, where S3 itself writes one: each may start a run, and all of them within one time-out
_REASONS = {"Put": "PutObject", "Post": "POST Object", "Copy": "CopyObject", "Delete": "DeleteObject"}


class Event(NamedTuple):
    """One event. `key` names it however often and on whatever way it comes; `content` is the envelope."""

    key: str
    content: Json

    @property
    def id(self) -> str:
        return str(self.content["id"])

    @property
    def object(self) -> Json:
        """The object that an event of S3 tells of: its `key`, `size`, `etag`; empty for other events."""
        return _object_of(self.content)

    @property
    def bucket(self) -> str:
        """The bucket of that object, "" for other events."""
        return _bucket_of(self.content)


def events_in(content: Json) -> list[Event] | None:
    """The events in a message, none where S3 only tries whether it may send; None where it holds no event but a job.

    Raises:
        InvalidRequest: an event lacks what every event has, S3 tells of something that has no name in EventBridge, or
            of more at a time than it does.
    """
    if "detail-type" in content:
        return [_event(content)]
    if content.get("Event") == "s3:TestEvent":
        return []
    records = content.get("Records")
    if isinstance(records, list) and records and all(_is_of_s3(record) for record in records):
        if len(records) > _MAX_RECORDS:
            why = f"A message tells of {_MAX_RECORDS} objects at most; this one of {len(records)}."
            raise InvalidRequest(why, "Records")
        return [_event(_as_told_by_eventbridge(record)) for record in records]
    return None


def _event(content: Json) -> Event:
    for name in ("id", "source", "detail-type"):
        if not isinstance(content.get(name), str) or not content[name]:
            raise InvalidRequest(f"An event has a text in {name!r}; this one has none.", name)
    if not isinstance(content.get("detail"), dict):
        raise InvalidRequest("An event has an object in 'detail'; this one has none.", "detail")
    return Event(_key(content), content)


def _key(content: Json) -> str:
    """S3 may tell of an object more than once, each time with another id, but with the same sequencer."""
    known = _object_of(content)
    names: tuple[Any, ...]
    if sequencer := known.get("sequencer"):
        names = ("s3", content["detail-type"], _bucket_of(content), known.get("key"), sequencer)
    else:
        names = ("event", content["source"], content["id"])
    return "event-" + hashlib.sha256("\0".join(map(str, names)).encode()).hexdigest()


def _object_of(content: Json) -> Json:
    found = content["detail"].get("object") if content["source"] == "aws.s3" else None
    return found if isinstance(found, dict) else {}


def _bucket_of(content: Json) -> str:
    found = content["detail"].get("bucket") if content["source"] == "aws.s3" else None
    return str(found.get("name", "")) if isinstance(found, dict) else ""


def _is_of_s3(record: object) -> bool:
    return isinstance(record, dict) and record.get("eventSource") == "aws:s3"


def _as_told_by_eventbridge(record: Json) -> Json:
    family, _, action = str(record.get("eventName", "")).removeprefix("s3:").partition(":")
    if family not in _DETAIL_TYPES:
        why = f"S3 tells of {family[:40]!r}; its own notifications are taken of {' and '.join(_DETAIL_TYPES)} alone."
        raise InvalidRequest(why, "eventName", "event_not_supported")
    try:
        bucket, known = record["s3"]["bucket"], record["s3"]["object"]
        described = {
            "key": unquote_plus(known["key"]),  # written as in a URL here, and as it is by EventBridge
            "size": known.get("size"),
            "etag": known.get("eTag"),
            "version-id": known.get("versionId"),
            "sequencer": known.get("sequencer"),
        }
        name, request_id = bucket["name"], record.get("responseElements", {}).get("x-amz-request-id")
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest("A notification of S3 names no bucket or no object.", "Records") from error
    return {
        "version": "0",
        "id": request_id or f"{name}/{described['key']}",
        "detail-type": _DETAIL_TYPES[family],
        "source": "aws.s3",
        "time": record.get("eventTime"),
        "region": record.get("awsRegion"),
        "resources": [f"arn:aws:s3:::{name}"],
        "detail": {
            "version": "0",
            "bucket": {"name": name},
            "object": {field: value for field, value in described.items() if value is not None},
            "request-id": request_id,
            "reason": _REASONS.get(action, action),
        },
    }
