"""The catalog in the record: agents and tools as they stand, and each version that they had.

One item counts the changes, and whoever changes the catalog does so on the count that he read. So what was checked
against the other rows still holds when it is written: no agent keeps a tool that somebody else deletes meanwhile.
"""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from stepagent.errors import ConfigurationError, RecordUnavailable
from stepagent.models import problems
from stepagent.rows import SPECS, Catalog, Row, RowKey, RowKind, Spec, body_of
from stepagent.settings import settings
from stepagent.store.clients import dynamodb, translated
from stepagent.store.items import LATEST, Item, catalog_key, latest_key, latest_pk, marshal, unmarshal, version_key
from stepagent.store.table import Operation, change, get, put, query, transact

ROWS_AT_ONCE = 20  # each is written twice, and a transaction has 4 MB at most
_MAX_NAME_CHARS = 128  # as `ToolName` has it
_KEYS_AT_ONCE = 100  # of a BatchGetItem
_READ_ATTEMPTS = 8


class Standing(NamedTuple):
    """The whole catalog as it stands, what was deleted too, and how often it was changed before."""

    changes: int
    rows: dict[RowKey, Row]

    @property
    def catalog(self) -> Catalog:
        return Catalog.of(row.spec for row in self.rows.values())


def read_row(key: RowKey, version: int | None = None) -> Row | None:
    """A row as it stands, or in one of its versions; None where there never was one."""
    if len(key.name) > _MAX_NAME_CHARS:  # DynamoDB would refuse such a key
        return None
    item = get(latest_key(key) if version is None else version_key(key, version))
    return _row(item) if item else None


def read_rows(keys: Iterable[RowKey]) -> list[Row]:
    """Rows as they stand, in one request for up to a hundred of them; those that never were are left out."""
    wanted = [latest_key(key) for key in keys]
    starts = range(0, len(wanted), _KEYS_AT_ONCE)
    return [_row(item) for start in starts for item in _get_all(wanted[start : start + _KEYS_AT_ONCE])]


def list_rows(kind: RowKind) -> list[Row]:
    """All rows of a kind that are not deleted, by name."""
    return [row for row in _all_rows(kind) if row.spec is not None]


def read_standing() -> Standing:
    # The count comes first: a change that is made meanwhile makes it old, never the rows.
    item = get(catalog_key()) or {}
    rows = {row.key: row for kind in SPECS for row in _all_rows(kind)}
    return Standing(int(item.get("changes", 0)), rows)


def write_rows(rows: Sequence[Row], changes: int) -> None:
    """Writes new versions, up to 20 of them all at once or not at all. `changes` is the count they were checked on.

    Raises:
        RecordConflict: somebody else changed the catalog first; of more than 20, the first ones may be written.
    """
    for known, start in enumerate(range(0, len(rows), ROWS_AT_ONCE), changes):
        writes = [operation for row in rows[start : start + ROWS_AT_ONCE] for operation in _writes(row)]
        transact([_count_change(known), *writes])


def _all_rows(kind: RowKind) -> list[Row]:
    return [_row(item) for item in query(latest_pk(kind), LATEST)]


def _count_change(known: int) -> Operation:
    condition = "#changes = :known" if known else "attribute_not_exists(pk)"
    values = {":next": known + 1} | ({":known": known} if known else {})
    return change(catalog_key(), "SET #changes = :next", condition, values)


def _writes(row: Row) -> list[Operation]:
    """The version, which must be new, and the row as it stands, which the count guards."""
    values = {
        "kind": row.key.kind,
        "name": row.key.name,
        "version": row.version,
        "origin": row.origin,
        "changed_by": row.changed_by,
        "changed_at": row.changed_at.isoformat(),
        "file_digest": row.file_digest,
        **({"body": body_of(row.spec)} if row.spec else {}),
    }
    standing = {"TableName": settings().record_table, "Item": {**latest_key(row.key), **marshal(values)}}
    return [put(version_key(row.key, row.version), values), {"Put": standing}]


def _row(item: Mapping[str, Any]) -> Row:
    key = RowKey(item["kind"], item["name"])
    return Row(
        key,
        int(item["version"]),
        _spec(key, item["body"]) if "body" in item else None,
        item["origin"],
        item["changed_by"],
        datetime.fromisoformat(item["changed_at"]),
        item["file_digest"],
    )


def _spec(key: RowKey, body: str) -> Spec:
    try:
        return SPECS[key.kind].model_validate_json(body)
    except ValidationError as error:  # written before this code was
        raise ConfigurationError(f"The record's {key} is not right: {problems(error)}.") from error


@translated()
def _get_all(keys: list[Item]) -> list[dict[str, Any]]:
    """Items by key, strongly consistent; asks again for those that the service did not get to.

    Raises:
        RecordUnavailable: it does not get to them.
    """
    table, items, left = settings().record_table, list[dict[str, Any]](), keys
    for attempt in range(_READ_ATTEMPTS):
        time.sleep(random.uniform(0, 0.05 * 2**attempt) if attempt else 0)
        answer: Any = dynamodb().batch_get_item(RequestItems={table: {"Keys": left, "ConsistentRead": True}})
        items += [unmarshal(item) for item in answer["Responses"].get(table, ())]
        left = answer["UnprocessedKeys"].get(table, {}).get("Keys", [])
        if not left:
            return items
    raise RecordUnavailable(f"The record did not get to {len(left)} of the rows that were asked for.")
