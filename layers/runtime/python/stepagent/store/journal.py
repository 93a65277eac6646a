"""The journal's table: the events of a run, numbered from 1 without gaps, several of them an item.

An item is a page of the journal. Its key `n` is the number of its first event; its events stand in a list, and where an
event stands is its number. The service itself appends (`list_append`), so writers who come together never compete for a
number, and an event that was not written leaves no gap. A page that is full is never changed again: the next one begins
with the number that follows.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from stepagent.clock import now
from stepagent.runs import Run, RunId
from stepagent.settings import settings
from stepagent.store.clients import dynamodb, translated
from stepagent.store.items import marshal, unmarshal

EventType = Literal[
    "run.started",
    "turn.started",
    "message.delta",
    "message.completed",
    "tool.started",
    "tool.completed",
    "interaction.required",
    "interaction.reminder",
    "interaction.resolved",
    "usage",
    "strategy.chosen",
    "plan.created",
    "plan.updated",
    "step.started",
    "step.completed",
    "run.completed",
    "run.failed",
    "run.cancelled",
]
LAST_EVENTS: frozenset[str] = frozenset({"run.completed", "run.failed", "run.cancelled"})

MAX_APPENDED = 8  # events in one request: with what a page holds before, an item stays far below 400 KB
# A write costs by the size of its item, so a page is full at 8 KB, and an event weighs at least 500 bytes in it.
_FULL = 8_000
_LEAST_WEIGHT = 500
_MOST_IN_A_PAGE = _FULL // _LEAST_WEIGHT + MAX_APPENDED


class Event(NamedTuple):
    """One event. `n` counts from 1 without gaps; `at` is ISO 8601 in UTC; `data` is small: ids, fragments, previews."""

    n: int
    type: str
    at: str
    data: dict[str, Any]


class Entry(NamedTuple):
    """An event that has no number yet. `key` is its own: by it, a request that is repeated is known."""

    key: str
    type: EventType
    at: datetime
    data: Mapping[str, Any]


class Position(NamedTuple):
    """Where the next event belongs: in the page with this first number, unless the run has had its last event."""

    page: int
    ended: bool


def first_event(run: Run) -> Mapping[str, Any]:
    """The write of event 1, to be part of the transaction that creates the run."""
    text = _text(Entry(run.run_id, "run.started", now(), {"run_id": run.run_id, "agent": run.agent.name}))
    page = {"events": [text], "weight": _weight([text]), "expires_at": _expiry()}
    return {
        "Put": {
            "TableName": settings().journal_table,
            "Item": {**_key(run.run_id, 1), **marshal(page)},
            "ConditionExpression": "attribute_not_exists(run_id)",
        }
    }


def find_position(run_id: RunId) -> Position:
    """Where the next event of a run belongs, as far as is known now."""
    page = _last_page(run_id)
    return _position(page) if page else Position(1, ended=False)


@translated()
def append(run_id: RunId, page: int, entries: Sequence[Entry]) -> Position | None:
    """Appends up to `MAX_APPENDED` entries to a page, one behind the other, all or none; a last event only as the last.

    Returns None, or, where the page takes no more and nothing was written, where they belong instead.
    """
    texts = [_text(entry) for entry in entries]
    values = {
        ":none": [],
        ":new": texts,
        ":first": texts[0],
        ":weight": _weight(texts),
        ":full": _FULL,
        ":expiry": _expiry(),
    }
    changes = "events = list_append(if_not_exists(events, :none), :new), expires_at = :expiry"
    if entries[-1].type in LAST_EVENTS:
        changes, values = f"{changes}, ended = :true", values | {":true": True}
    try:
        dynamodb().update_item(
            TableName=settings().journal_table,
            Key=_key(run_id, page),
            UpdateExpression=f"SET {changes} ADD weight :weight",
            ConditionExpression="attribute_not_exists(ended) AND (attribute_not_exists(weight) OR weight < :full)"
            " AND NOT contains(events, :first)",
            ExpressionAttributeValues=marshal(values),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except dynamodb().exceptions.ConditionalCheckFailedException as error:
        standing = unmarshal(error.response["Item"])  # type: ignore[typeddict-item]  # botocore types it not
        # The client repeats a request whose answer was lost; the events that stand there then are these very ones.
        return None if texts[0] in standing["events"] else _position(standing)
    return None


def last_event(run_id: RunId) -> Event | None:
    page = _last_page(run_id)
    return _events(page)[-1] if page else None


@translated()
def read_events(run_id: RunId, after: int) -> list[Event]:
    """The events that follow number `after`, as far as they stand without a gap; at most about 1 MB of them."""
    pages = (
        dynamodb()
        .get_paginator("query")
        .paginate(
            TableName=settings().journal_table,
            KeyConditionExpression="run_id = :run AND n > :before",
            # The event behind `after` may stand in a page that begins before it.
            ExpressionAttributeValues=marshal({":run": run_id, ":before": after - _MOST_IN_A_PAGE}),
        )
    )
    for answer in pages:
        found = [event for item in answer["Items"] for event in _events(unmarshal(item)) if event.n > after]
        if found:
            return [event for expected, event in enumerate(found, after + 1) if event.n == expected]
    return []


@translated()
def _last_page(run_id: RunId) -> dict[str, Any] | None:
    answer = dynamodb().query(
        TableName=settings().journal_table,
        KeyConditionExpression="run_id = :run",
        ExpressionAttributeValues=marshal({":run": run_id}),
        ScanIndexForward=False,
        Limit=1,
        ConsistentRead=True,
    )
    return unmarshal(answer["Items"][0]) if answer["Items"] else None


def _position(page: Mapping[str, Any]) -> Position:
    full = page["weight"] >= _FULL
    return Position(int(page["n"]) + (len(page["events"]) if full else 0), ended="ended" in page)


def _events(page: Mapping[str, Any]) -> list[Event]:
    stored = [json.loads(text) for text in page["events"]]
    return [Event(n, event["type"], event["at"], event["data"]) for n, event in enumerate(stored, int(page["n"]))]


def _text(entry: Entry) -> str:
    at = entry.at.isoformat(timespec="milliseconds")
    return json.dumps({**entry._asdict(), "at": at}, ensure_ascii=False, separators=(",", ":"))


def _weight(texts: Sequence[str]) -> int:
    return sum(max(len(text.encode()), _LEAST_WEIGHT) for text in texts)


def _key(run_id: RunId, page: int) -> dict[str, Any]:
    return marshal({"run_id": run_id, "n": page})


def _expiry() -> int:
    return int((now() + timedelta(days=settings().journal_days)).timestamp())
