"""What MCP servers were found to offer, kept so that not every run asks them.

One item a server: its address, headers and choice of tools, hashed. So rows that speak of one server share an item, and
a row that changes finds none.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from stepagent.clock import now
from stepagent.errors import RecordConflict, RecordUnavailable
from stepagent.mcp_tools import Listing
from stepagent.observe import logger
from stepagent.store.items import Item, assign, listing_key, unpack
from stepagent.store.table import ANYHOW, apply, change, get
from stepagent.targets import McpTarget


class KeptListing(NamedTuple):
    """A server's list, None where none was ever read. `listed_at` is None too where it is known to be out of date.

    `failed_at` is when the server was asked since, and did not answer.
    """

    listing: Listing | None = None
    listed_at: datetime | None = None
    failed_at: datetime | None = None


def load_listing(server: McpTarget) -> KeptListing:
    item = get(_key(server)) or {}
    try:
        listing = Listing.model_validate_json(unpack(item, "body") or "")
    except ValidationError:  # there is none, or one in the form of other code than this
        return KeptListing(None, None, _moment(item, "failed_at"))
    return KeptListing(listing, _moment(item, "listed_at"), _moment(item, "failed_at"))


def store_listing(server: McpTarget, listing: Listing) -> None:
    """Keeps what a server just listed."""
    kept, body = assign("body", listing.model_dump_json())
    other = "body" if "body_object" in kept else "body_object"
    expression = f"SET {kept}, listed_at = :now REMOVE {other}, failed_at"
    apply(change(_key(server), expression, ANYHOW, {**body, ":now": now().isoformat()}))


def note_failure(server: McpTarget) -> None:
    """Notes that a server was asked and did not answer; its earlier list stays."""
    apply(change(_key(server), "SET failed_at = :now", ANYHOW, {":now": now().isoformat()}))


def drop_listing(server: McpTarget) -> None:
    """Has the server asked before the next run; its list stays for as long as it does not answer.

    Whoever finds it out of date has a result to bring home, so nothing is raised.
    """
    try:
        apply(change(_key(server), "REMOVE listed_at, failed_at", "attribute_exists(pk)", {}))
    except RecordConflict:  # there is none
        return
    except RecordUnavailable as error:
        logger.warning("list of an mcp server not dropped", extra={"reason": error.message})


def _key(server: McpTarget) -> Item:
    identity = server.model_dump_json(include={"url", "headers", "secrets", "only"})
    return listing_key(hashlib.sha256(identity.encode()).hexdigest()[:32])


def _moment(item: Mapping[str, Any], name: str) -> datetime | None:
    return datetime.fromisoformat(item[name]) if name in item else None
