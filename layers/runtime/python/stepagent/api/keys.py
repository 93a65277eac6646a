"""Bearer keys: how one is made, who it belongs to, and what it may do. Only hashes are stored.

A key is `sk-sa-`, 32 random characters (190 bits) and a check of six: scanners for secrets know it by its look, and
what is mistyped or guessed costs no read. Keys that the parameter ApiKeyHashes lists may look otherwise.
"""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from stepagent.clock import now
from stepagent.errors import Forbidden, RecordConflict, RecordUnavailable
from stepagent.observe import logger
from stepagent.runs import Principal
from stepagent.settings import settings
from stepagent.spending import UsedKey
from stepagent.store.keys import find_key, id_of, note_use

Scope = Literal["catalog"]

_PREFIX = "sk-sa-"
_DIGITS = string.digits + string.ascii_letters
_SECRET_CHARS = 32
_CHECK_CHARS = 6  # hold the 32 bits of a CRC
_KEY = re.compile(rf"{_PREFIX}([0-9A-Za-z]{{{_SECRET_CHARS}}})([0-9A-Za-z]{{{_CHECK_CHARS}}})")
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")


class Caller(NamedTuple):
    """Who sends a request. `scopes` are what the caller may do beyond its own sessions and runs.

    `usage_key` is by what API Gateway counts its requests, "" for callers that share a usage plan. Functions are not
    told it.
    """

    principal: Principal
    scopes: frozenset[str] = frozenset()
    used_key: UsedKey | None = None
    usage_key: str = ""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Does nothing for a caller with this scope.

        Raises:
            Forbidden: the caller lacks it.
        """
        if not self.may(scope):
            raise Forbidden(f"This needs a key with the scope {scope!r}.")

    @property
    def context(self) -> dict[str, str]:
        """What API Gateway passes on to functions: its values are texts, never lists. `caller_in` reads it."""
        key = {"key": self.used_key.model_dump_json()} if self.used_key else {}
        return {"scopes": " ".join(sorted(self.scopes)), **key}


def caller_in(authorizer: Mapping[str, Any]) -> Caller:
    """The caller that the authorizer found, from the context of a request."""
    key = authorizer.get("key")
    return Caller(
        Principal(authorizer["principalId"]),
        frozenset((authorizer.get("scopes") or "").split()),
        UsedKey.model_validate_json(key) if key else None,
    )


def bearer_in(authorization: str) -> str:
    """What stands behind `Bearer` in the header, "" where it has another scheme."""
    scheme, _, credential = authorization.partition(" ")
    return credential.strip() if scheme.lower() == "bearer" else ""


def caller_of_key(key: str) -> Caller | None:
    """The caller whose key this is: one that the parameter lists, or one of the record that is valid. None for others.

    Raises:
        RecordUnavailable: the record does not answer, so that nobody knows.
    """
    return _listed(key) or (_recorded(key) if is_well_formed(key) else None)


def make_key() -> str:
    """A new key."""
    secret = "".join(secrets.choice(_DIGITS) for _ in range(_SECRET_CHARS))
    return f"{_PREFIX}{secret}{_check(secret)}"


def is_well_formed(key: str) -> bool:
    """Whether it looks like a key that `make_key` made."""
    parts = _KEY.fullmatch(key)
    return parts is not None and parts[2] == _check(parts[1])


def is_name(text: str) -> bool:
    """Whether keys may be made in this name. It has no colon, which every principal of an issuer's token has."""
    return _NAME.fullmatch(text) is not None


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _listed(key: str) -> Caller | None:
    """As `name=hash` or `name+scope=hash`, comma separated."""
    digest = digest_of(key)
    for entry in settings().api_key_hashes.split(","):
        names, _, known = entry.strip().partition("=")
        name, *scopes = names.split("+")
        if name and ":" not in name and hmac.compare_digest(digest.encode(), known.lower().encode()):
            return Caller(Principal(name), frozenset(filter(None, scopes)), UsedKey(key_id=id_of(digest)))
    return None


def _recorded(key: str) -> Caller | None:
    record = find_key(digest_of(key))
    if record is None or not record.is_valid(now()):
        return None
    try:
        note_use(record)
    except (RecordConflict, RecordUnavailable) as error:  # who may come in does not depend on it
        logger.warning("use of a key not noted", extra={"key_id": record.key_id, "code": error.code})
    used_key = UsedKey(key_id=record.key_id, budget=record.budget)
    return Caller(record.name, frozenset(record.scopes), used_key, record.usage_key)


def _check(secret: str) -> str:
    """CRC-32 of the text in base 62."""
    number, digits = zlib.crc32(secret.encode()), ""
    for _ in range(_CHECK_CHARS):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
