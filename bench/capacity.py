"""How DynamoDB charges a request, computed from the request and its answer.

The emulator counts write units as the service does, by the size of items, but read units without it. So writes are its
count, and reads are computed here by the documented rules: 4 KB a unit, half of it where a read need not be consistent.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_READ_BYTES = 4096
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"})


class Units(NamedTuple):
    """Read and write request units."""

    read: float
    write: float


def units_of(operation: str, asked: Mapping[str, Any], answered: Mapping[str, Any]) -> Units:
    """What one request costs; a write that a condition refused counts as one of 1 KB."""
    if operation in _WRITES:
        return Units(0, _written(answered.get("ConsumedCapacity")) or 1)
    share = 1.0 if _is_consistent(asked) else 0.5
    match operation:
        case "GetItem":
            return Units(share * _reads(_item_bytes(answered.get("Item", {}))), 0)
        case "BatchGetItem":
            items = [item for found in answered.get("Responses", {}).values() for item in found]
            asked_for = sum(len(keys["Keys"]) for keys in asked["RequestItems"].values())
            absent = asked_for - len(items)
            return Units(share * (absent + sum(_reads(_item_bytes(item)) for item in items)), 0)
        case "Query" | "Scan":
            return Units(share * _reads(sum(map(_item_bytes, answered.get("Items", ())))), 0)
    return Units(0, 0)


def _written(consumed: Any) -> float:
    tables = consumed if isinstance(consumed, list) else [consumed] if consumed else []
    return float(sum(table["CapacityUnits"] for table in tables))


def _is_consistent(asked: Mapping[str, Any]) -> bool:
    tables: Iterable[Mapping[str, Any]] = asked.get("RequestItems", {"": asked}).values()
    return any(table.get("ConsistentRead", False) for table in tables)


def _reads(size_bytes: int) -> int:
    return max(1, math.ceil(size_bytes / _READ_BYTES))


def _item_bytes(item: Mapping[str, Any]) -> int:
    """The size by which an item is charged: its names and its values."""
    return sum(len(name.encode()) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return len(content.strip("-").replace(".", "")) // 2 + 1
        case "B":
            return len(content) * 3 // 4
        case "M" | "L":
            inner = _item_bytes(content) if kind == "M" else sum(map(_value_bytes, content))
            return 3 + len(content) + inner
    return 1  # a boolean, or null; the product keeps no sets
