"""Headers that a request may have."""

import re

from stepagent.web.errors import WebRefused

# Those that belong to one connection, or say how long a body is: whoever sends writes them, nobody else.
RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


def check_header(name: str, value: str = "") -> None:
    """Passes if the header may stand in a request.

    Raises:
        WebRefused: the name is none, or belongs to the connection; or the value, which the message does not tell, has
            other characters than printable ASCII, such as those that begin a new line.
    """
    if not _NAME.fullmatch(name):
        raise WebRefused(f"{name[:100]!r} is not the name of a header.")
    if name.lower() in RESERVED:
        raise WebRefused(f"The header {name} is set by the connection itself.")
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise WebRefused(f"The header {name} must be one line of printable ASCII, without blanks around it.")
