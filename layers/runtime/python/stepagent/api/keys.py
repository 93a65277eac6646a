"""Who a bearer key belongs to, and what it may do. Only hashes are stored."""

import hashlib
import hmac
from typing import Literal, NamedTuple

from stepagent.errors import Forbidden
from stepagent.runs import Principal
from stepagent.settings import settings

Scope = Literal["catalog"]


class Caller(NamedTuple):
    """Who sends a request. `scopes` are what the caller may do beyond its own sessions and runs."""

    principal: Principal
    scopes: frozenset[str] = frozenset()

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Does nothing for a caller with this scope.

        Raises:
            Forbidden: the caller lacks it.
        """
        if not self.may(scope):
            raise Forbidden(f"This needs a key with the scope {scope!r}.")


def caller_of(authorization: str) -> Caller | None:
    """The caller whose key's hash is listed, as `name=hash` or `name+scope=hash`; None where it is not.

    Takes `Bearer KEY` as it stands in the header.
    """
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    given = hashlib.sha256(key.strip().encode()).hexdigest().encode()
    for entry in settings().api_key_hashes.split(","):
        names, _, known = entry.strip().partition("=")
        name, *scopes = names.split("+")
        if name and hmac.compare_digest(given, known.lower().encode()):
            return Caller(Principal(name), frozenset(filter(None, scopes)))
    return None
