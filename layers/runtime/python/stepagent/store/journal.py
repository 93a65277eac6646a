"""The journal's table: numbered events of a run, without gaps."""

import json
from collections.abc import Mapping
from datetime import timedelta
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
    "interaction.resolved",
    "usage",
    "run.completed",
    "run.failed",
    "run.cancelled",
]
LAST_EVENTS: frozenset[str] = frozenset({"run.completed", "run.failed", "run.cancelled"})


class Event(NamedTuple):
    """One event. `n` counts from 1 without gaps; `at` is ISO 8601 in UTC; `data` is small: ids, fragments, previews."""

    n: int
    type: str
    at: str
    data: dict[str, Any]


def first_event(run: Run) -> Mapping[str, Any]:
    """The write of event 1, to be part of the transaction that creates the run."""
    return {"Put": _put(run.run_id, 1, "run.started", {"run_id": run.run_id, "agent": run.agent.name})}


@translated()
def last_event(run_id: RunId) -> Event | None:
    answer = dynamodb().query(
        TableName=settings().journal_table,
        KeyConditionExpression="run_id = :run",
        ExpressionAttributeValues=marshal({":run": run_id}),
        ScanIndexForward=False,
        Limit=1,
        ConsistentRead=True,
    )
    return _event(answer["Items"][0]) if answer["Items"] else None


@translated()
def put_event(run_id: RunId, n: int, type_: EventType, data: Mapping[str, Any]) -> Event | None:
    """Writes event `n`. Returns None, or the other event that has this number already."""
    request = _put(run_id, n, type_, data)
    try:
        dynamodb().put_item(**request, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    except dynamodb().exceptions.ConditionalCheckFailedException as error:
        standing: Mapping[str, Any] = error.response["Item"]  # type: ignore[typeddict-item]  # botocore types it not
        # The client repeats a request whose answer was lost; what stands there then is this very event.
        return None if standing == request["Item"] else _event(standing)
    return None


@translated()
def read_events(run_id: RunId, after: int) -> list[Event]:
    """The events that follow number `after`, as far as they stand without a gap; at most one page of 1 MB."""
    answer = dynamodb().query(
        TableName=settings().journal_table,
        KeyConditionExpression="run_id = :run AND n > :after",
        ExpressionAttributeValues=marshal({":run": run_id, ":after": after}),
    )
    events = [_event(item) for item in answer["Items"]]
    return [event for expected, event in enumerate(events, after + 1) if event.n == expected]


def _put(run_id: RunId, n: int, type_: str, data: Mapping[str, Any]) -> dict[str, Any]:
    moment = now()
    values = {
        "run_id": run_id,
        "n": n,
        "type": type_,
        "at": moment.isoformat(timespec="milliseconds"),
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")),
        "expires_at": int((moment + timedelta(days=settings().journal_days)).timestamp()),
    }
    return {
        "TableName": settings().journal_table,
        "Item": marshal(values),
        "ConditionExpression": "attribute_not_exists(run_id)",
    }


def _event(item: Mapping[str, Any]) -> Event:
    values = unmarshal(item)
    return Event(int(values["n"]), values["type"], values["at"], json.loads(values["data"]))
