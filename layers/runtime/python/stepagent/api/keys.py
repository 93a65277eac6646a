"""Who a bearer key belongs to. Only hashes are stored."""

import hashlib
import hmac

from stepagent.runs import Principal
from stepagent.settings import settings


def principal_of(authorization: str) -> Principal | None:
    """The name under which this key's hash is listed, or None. Takes `Bearer KEY` as it stands in the header."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    given = hashlib.sha256(key.strip().encode()).hexdigest().encode()
    for entry in settings().api_key_hashes.split(","):
        name, _, known = entry.strip().partition("=")
        if name and hmac.compare_digest(given, known.lower().encode()):
            return Principal(name)
    return None
