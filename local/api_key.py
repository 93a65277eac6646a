"""Make a key for a client of a deployed stack: `python -m local.api_key NAME [SCOPE ...]`."""

import hashlib
import secrets
import sys
from typing import get_args

from stepagent.api.keys import Scope

SCOPES = get_args(Scope)


def main() -> None:
    """Print a new key, once, and the entry for the parameter `ApiKeyHashes`; nothing is stored."""
    name, *scopes = sys.argv[1:] or [""]
    if not name.replace("-", "").replace("_", "").isalnum():
        sys.exit('Name the client by letters, digits, "-" and "_": make api-key NAME=alice')
    if unknown := set(scopes) - set(SCOPES):
        sys.exit(f"There is no scope {', '.join(sorted(unknown))}; there is: {', '.join(SCOPES)}.")
    key = f"sk-stepagent-{secrets.token_urlsafe(32)}"
    print(f"key for {name}, shown this once:  {key}")
    print(f"entry for ApiKeyHashes:  {entry(name, scopes, key)}")


def entry(name: str, scopes: list[str], key: str) -> str:
    """How the parameter `ApiKeyHashes` lists a key."""
    return f"{'+'.join([name, *scopes])}={hashlib.sha256(key.encode()).hexdigest()}"


if __name__ == "__main__":
    main()
