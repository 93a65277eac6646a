"""Make a key for a client of a deployed stack: `python -m local.api_key NAME`."""

import hashlib
import secrets
import sys


def main() -> None:
    """Print a new key, once, and the entry for the parameter `ApiKeyHashes`; nothing is stored."""
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if not name or not name.replace("-", "").replace("_", "").isalnum():
        sys.exit('Name the client by letters, digits, "-" and "_": make api-key NAME=alice')
    key = f"sk-stepagent-{secrets.token_urlsafe(32)}"
    print(f"key for {name}, shown this once:  {key}")
    print(f"entry for ApiKeyHashes:  {name}={hashlib.sha256(key.encode()).hexdigest()}")


if __name__ == "__main__":
    main()
