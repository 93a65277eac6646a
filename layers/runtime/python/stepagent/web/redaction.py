"""Secrets, taken out of whatever a server says."""

import html
import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "[secret]"


class Redaction:
    """Hides some secrets, as they are and as URLs, JSON, HTML and base64 spell them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
        self._spellings = sorted(spellings, key=len, reverse=True)  # the longest first: one may be part of another

    def text(self, text: str) -> str:
        for spelling in self._spellings:
            text = text.replace(spelling, HIDDEN)
        return text

    def beginning(self, text: str) -> str:
        """The same for a text that was cut: what may be the beginning of a secret at its end is left out too."""
        hidden = self.text(text)
        begun = max((_overlap(hidden, spelling) for spelling in self._spellings), default=0)
        return hidden[: len(hidden) - begun]

    def value(self, value: Any) -> Any:
        """The same for JSON: in texts, in keys, and in numbers."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self.value(member) for key, member in value.items()}
            case list():
                return [self.value(item) for item in value]
            case int() | float() if not isinstance(value, bool) and self.finds(str(value)):
                return HIDDEN
        return value

    def finds(self, text: str) -> bool:
        """Whether there is something to hide."""
        return any(spelling in text for spelling in self._spellings)


NOTHING_SECRET = Redaction()


def _spellings(secret: str) -> set[str]:
    quoted = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    return {
        secret,
        *quoted,
        *(text.replace("%2F", "%2f").replace("%3D", "%3d").replace("%2B", "%2b") for text in quoted),
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        html.escape(secret),
        b64encode(secret.encode()).decode().rstrip("="),
    }


def _overlap(text: str, spelling: str) -> int:
    """How many characters at the text's end are the spelling's first ones."""
    return next((size for size in range(len(spelling) - 1, 0, -1) if text.endswith(spelling[:size])), 0)
