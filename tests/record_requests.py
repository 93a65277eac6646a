"""Which requests the library makes of DynamoDB, told apart by table."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.model import OperationModel

from stepagent.settings import settings
from stepagent.store.clients import dynamodb


@contextmanager
def record_requests() -> Iterator[list[str]]:
    """Collects the operations that ask the record; those of the journal alone are left out.

    A transaction is one request, as is each page of a query; what the client repeats by itself is not counted again.
    """
    asked: list[str] = []

    def hear(model: OperationModel, params: dict[str, Any], **_: Any) -> None:
        if settings().record_table in _tables(json.loads(params["body"])):
            asked.append(model.name)

    events = dynamodb().meta.events
    events.register("before-call.dynamodb", hear)
    try:
        yield asked
    finally:
        events.unregister("before-call.dynamodb", hear)


def _tables(body: dict[str, Any]) -> set[str]:
    """The tables that a request names, wherever it does."""
    if "TableName" in body:
        return {body["TableName"]}
    operations = [operation for each in body.get("TransactItems", ()) for operation in each.values()]
    return {operation["TableName"] for operation in operations} | set(body.get("RequestItems", ()))
