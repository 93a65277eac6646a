"""What the body of an answer says."""

import codecs
import json
import re
from base64 import b64encode
from email.message import Message
from typing import Any

from stepagent.web.redaction import NOTHING_SECRET, Redaction
from stepagent.web.reply import WebResponse

_SHOWN_BINARY_BYTES = 4_096  # larger, base64 costs more tokens than it tells
_LEVELS = 90
_TEXT_CHARSETS = re.compile(
    r"utf-?(8|16|32)([-_](sig|le|be))?|ascii|iso8859-\d+|cp\d+|koi8-[rut]|gb\w+|big5\w*|hz|euc_\w+|"
    r"shift_jis\w*|iso2022_\w+|mac-\w+|johab|tis-620"
)
_JSON = re.compile(r"application/([\w.+-]+\+)?json|text/json")
_BINARY = re.compile(r"(image/(?!svg)|audio/|video/|font/|application/(octet-stream|pdf|zip|gzip|x-tar))")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def content_of(response: WebResponse, redaction: Redaction = NOTHING_SECRET) -> Any:
    """JSON as the value it is, text as text, anything else described, with its bytes in base64 where they are few.

    Text that was cut ends with a note of that. Secrets are hidden.
    """
    if not response.body:
        return f"(no content, status {response.status})"
    text = text_of(response)
    if text is None:
        return _described(response, redaction)
    if response.cut:
        note = f"\n… (cut: only the first {len(response.body)} bytes of the answer were read)"
        return redaction.beginning(text) + note
    return redaction.value(_parsed(text) if _is_json(response) else text)


def text_of(response: WebResponse) -> str | None:
    """The body as text in the charset that it names, UTF-8 unless it names one; None where it is no text."""
    kind, charset = _content_type(response)
    if _BINARY.match(kind):
        return None
    begun = response.body.decode(charset, "replace")
    text = begun.removeprefix("\ufeff")
    broken = not kind.startswith("text/") and not _is_json(response) and "\ufffd" in text[:-1]
    return None if broken or _CONTROLS.search(text) else text


def _is_json(response: WebResponse) -> bool:
    return bool(_JSON.fullmatch(_content_type(response)[0]))


def _content_type(response: WebResponse) -> tuple[str, str]:
    """The media type and the charset, in lower case."""
    header = Message()
    header["content-type"] = response.headers.get("content-type", "").replace("\n", " ") or "application/unknown"
    return header.get_content_type(), _charset(str(header.get_param("charset", "utf-8")))


def _charset(name: str) -> str:
    """A codec for text. Python knows others under such names, some of which take quadratic time."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return "utf-8"
    return codec if _TEXT_CHARSETS.fullmatch(codec) else "utf-8"


def _parsed(text: str) -> Any:
    """The JSON value, or the text where it is none, or nested deeper than anybody shows."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if _is_nested_at_most(_LEVELS, value) else text


def _is_nested_at_most(levels: int, value: Any) -> bool:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not members or (levels > 0 and all(_is_nested_at_most(levels - 1, member) for member in members))


def _described(response: WebResponse, redaction: Redaction) -> dict[str, Any]:
    described: dict[str, Any] = {"media_type": _content_type(response)[0], "size_bytes": len(response.body)}
    if response.cut or len(response.body) > _SHOWN_BINARY_BYTES:
        more = "at least " if response.cut else ""
        return {**described, "note": f"Not text: {more}{len(response.body)} bytes, which are not shown."}
    if redaction.finds(response.body.decode("latin-1")):
        return {**described, "note": "Not shown: it holds a secret."}
    return {**described, "base64": b64encode(response.body).decode()}
