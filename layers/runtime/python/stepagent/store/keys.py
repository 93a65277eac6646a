"""Keys in the record, by the SHA-256 of each, and what was spent with them.

All keys stand in one partition: a request that names a key costs one read, and a list one query. What is spent is
counted in the transaction that stores a turn, exactly and once; the count of a period is spread over a few items, so
that runs which go on at the same time do not wait for each other.
"""

import json
import zlib
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from stepagent.clock import now
from stepagent.errors import NotFound
from stepagent.models import Frozen
from stepagent.runs import Principal, Run
from stepagent.spending import KeyBudget, Period, Spent, period_of, renews_at
from stepagent.store.items import KEYS, key_key, key_sort, spent_key, spent_pk
from stepagent.store.table import ANYHOW, Operation, Refused, apply, change, get, put, query, transact
from stepagent.usage import Usage

ID_CHARS = 16  # of the digest: enough that no two keys share them
_PARTS = 16  # of a period's count
_USE_EVERY = timedelta(hours=1)
_COUNTS_KEPT = timedelta(days=400)  # so that a month can be compared with that of the year before
_CHANGING = {"last_used_at", "revoked_at"}


class KeyRecord(Frozen):
    """A key, without itself. `name` is the principal that its holder acts as; several keys may name the same one.

    `usage_key` is by what API Gateway counts its requests, and opens nothing; "" where it has no place of its own in a
    usage plan. `last_used_at` is right to the hour. A key that was revoked or has expired stays listed.
    """

    digest: str
    name: Principal
    scopes: tuple[str, ...] = ()
    budget: KeyBudget | None = None
    usage_key: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def key_id(self) -> str:
        return id_of(self.digest)

    def is_valid(self, moment: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)


def id_of(digest: str) -> str:
    """The id of the key with this SHA-256 (hex): it may be shown and logged."""
    return f"key_{digest[:ID_CHARS]}"


def put_key(record: KeyRecord) -> None:
    """Writes a new key.

    Raises:
        Refused: it is there already.
    """
    transact([put(key_key(record.digest), {"body": record.model_dump_json(exclude=_CHANGING)})])


def find_key(digest: str) -> KeyRecord | None:
    """The key with this SHA-256 (hex), whether or not it is valid still."""
    item = get(key_key(digest))
    return _record(item) if item else None


def list_keys() -> list[KeyRecord]:
    """All keys, the oldest first, also those that are valid no more."""
    return sorted(map(_record, query(KEYS, key_sort(""))), key=lambda record: record.created_at)


def revoke_key(key_id: str) -> KeyRecord:
    """Makes a key invalid from now on; one that was revoked before stays as it is.

    Raises:
        NotFound: no key has this id.
    """
    start = key_id.removeprefix("key_")
    found = query(KEYS, key_sort(start)) if len(start) == ID_CHARS else []
    if not found:
        raise NotFound(f"There is no key {key_id[:80]!r}.")
    record = _record(found[0])
    revoked = change(
        key_key(record.digest), "SET revoked_at = :now", "attribute_not_exists(revoked_at)", {":now": now().isoformat()}
    )
    try:
        return _record(apply(revoked))
    except Refused as refused:
        return _record(refused.item)


def note_use(record: KeyRecord) -> None:
    """Notes that a key is used, at most once an hour."""
    moment = now()
    if record.last_used_at and moment - record.last_used_at < _USE_EVERY:
        return
    used = change(
        key_key(record.digest), "SET last_used_at = :now", "attribute_exists(pk)", {":now": moment.isoformat()}
    )
    apply(used)


def count_spent(run: Run, usage: Usage) -> list[Operation]:
    """Counts what a run spent for the key that it was started with, if that has a budget; part of a transaction."""
    if run.used_key is None or run.used_key.budget is None or usage == Usage():
        return []
    per, moment = run.used_key.budget.per, now()
    values: dict[str, Any] = {
        ":tokens": usage.total_tokens,
        ":cost": usage.cost_usd or Decimal(0),
        ":forget": int((renews_at(per, moment) + _COUNTS_KEPT).timestamp()),
    }
    unknown = ""
    if usage.cost_usd is None:
        unknown, values[":true"] = ", cost_unknown = :true", True
    part = zlib.crc32(run.run_id.encode()) % _PARTS
    return [
        change(
            spent_key(run.used_key.key_id, period_of(per, moment), part),
            f"SET forget_at = :forget{unknown} ADD total_tokens :tokens, cost_usd :cost",
            ANYHOW,
            values,
        )
    ]


def read_spent(key_id: str, per: Period, moment: datetime) -> Spent:
    """What was spent with a key in the period that `moment` lies in, up to the last turn that was stored."""
    items = query(spent_pk(key_id), f"{period_of(per, moment)}#")
    cost = None if any(item.get("cost_unknown") for item in items) else sum((i["cost_usd"] for i in items), Decimal(0))
    return Spent(sum(int(item["total_tokens"]) for item in items), cost)


def _record(item: dict[str, Any]) -> KeyRecord:
    changed = {name: item.get(name) for name in _CHANGING}
    return KeyRecord.model_validate(json.loads(item["body"]) | changed)
