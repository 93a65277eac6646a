"""The few requests that the record is made of, with DynamoDB's refusals translated."""

import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from stepagent.errors import RecordConflict
from stepagent.settings import settings
from stepagent.store.clients import dynamodb, translated
from stepagent.store.items import Item, marshal, unmarshal

Operation = Mapping[str, Any]

ANYHOW = "attribute_exists(pk) OR attribute_not_exists(pk)"  # for a change of an item, whether or not it is there
_CONFLICT_ATTEMPTS = 6


class Refused(RecordConflict):
    """A condition did not hold. `item` is what stands there, {} where nothing does."""

    def __init__(self, item: dict[str, Any]) -> None:
        super().__init__("The record was changed by somebody else.")
        self.item = item


@translated()
def get(key: Item) -> dict[str, Any] | None:
    """One item, strongly consistent, or None."""
    answer = dynamodb().get_item(TableName=settings().record_table, Key=key, ConsistentRead=True)
    return unmarshal(answer["Item"]) if "Item" in answer else None


@translated()
def query(pk: str, prefix: str, after: str = "") -> list[dict[str, Any]]:
    """Every item of a partition whose sort key begins so, in order, over all pages; with `after`, those behind it."""
    start: dict[str, Any] = {"ExclusiveStartKey": marshal({"pk": pk, "sk": after})} if after else {}
    pages = (
        dynamodb()
        .get_paginator("query")
        .paginate(
            TableName=settings().record_table,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :prefix)",
            ExpressionAttributeValues=marshal({":pk": pk, ":prefix": prefix}),
            ConsistentRead=True,
            **start,
        )
    )
    return [unmarshal(item) for page in pages for item in page["Items"]]


@translated()
def query_back(pk: str, prefix: str, most: int, before: Item | None = None) -> list[dict[str, Any]]:
    """The last items of a partition whose sort key begins so, the last one first; with `before`, those before that key.

    At most `most` of them, or 1 MB.
    """
    request: dict[str, Any] = {"ExclusiveStartKey": before} if before else {}
    answer = dynamodb().query(
        TableName=settings().record_table,
        KeyConditionExpression="pk = :pk AND begins_with(sk, :prefix)",
        ExpressionAttributeValues=marshal({":pk": pk, ":prefix": prefix}),
        ScanIndexForward=False,
        Limit=most,
        ConsistentRead=True,
        **request,
    )
    return [unmarshal(item) for item in answer["Items"]]


def put(key: Item, values: Mapping[str, Any]) -> Operation:
    """Writes a new item. Used in `transact`."""
    return {
        "Put": {
            "TableName": settings().record_table,
            "Item": {**key, **marshal(values)},
            "ConditionExpression": "attribute_not_exists(pk)",
        }
    }


def change(key: Item, expression: str, condition: str, values: Mapping[str, Any]) -> Operation:
    """Changes an item under a condition, either of which may name reserved words with a leading `#`.

    `"SET #status = :done"` needs no table of names: each `#name` stands for the attribute of that name.
    """
    names = _placeholders(expression) | _placeholders(condition)
    operation: dict[str, Any] = {
        "TableName": settings().record_table,
        "Key": key,
        "UpdateExpression": expression,
        "ConditionExpression": condition,
    }
    if values:
        operation["ExpressionAttributeValues"] = marshal(values)
    if names:
        operation["ExpressionAttributeNames"] = {f"#{name}": name for name in names}
    return {"Update": operation}


@translated()
def apply(operation: Operation) -> dict[str, Any]:
    """Carries out one `change` and returns the item as it is then.

    Raises:
        Refused: the condition did not hold.
    """
    request = dict(operation["Update"], ReturnValues="ALL_NEW", ReturnValuesOnConditionCheckFailure="ALL_OLD")
    try:
        return unmarshal(dynamodb().update_item(**request)["Attributes"])
    except dynamodb().exceptions.ConditionalCheckFailedException as error:
        old: Item = error.response.get("Item", {})  # type: ignore[assignment]  # botocore types no such field
        raise Refused(unmarshal(old)) from error


@translated()
def transact(operations: Sequence[Operation]) -> None:
    """Carries out all or none, and again where nothing but a passing conflict was in the way.

    Raises:
        Refused: a condition did not hold.
    """
    for attempt in range(_CONFLICT_ATTEMPTS):
        try:
            dynamodb().transact_write_items(TransactItems=list(operations))  # type: ignore[arg-type]  # plain dicts
            return
        except dynamodb().exceptions.TransactionCanceledException as error:
            reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", [])}
            if "ConditionalCheckFailed" in reasons:
                raise Refused({}) from error
            if "TransactionConflict" not in reasons or attempt == _CONFLICT_ATTEMPTS - 1:
                raise
        time.sleep(random.uniform(0, 0.05 * 2**attempt))


def _placeholders(text: str) -> set[str]:
    return set(re.findall(r"#(\w+)", text))
