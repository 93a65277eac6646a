"""A tool's return value as the text that the model reads."""

from collections.abc import Mapping
from typing import Any

from stepagent.llm.fragments import mended
from stepagent.tools.plain import to_json

EMPTY = "(empty)"
MAX_KEPT_BYTES = 20_000_000  # of one result
_CONTINUATION = bytes(range(0x80, 0xC0))  # bytes that begin no character in UTF-8


def to_text(value: Any) -> str:
    """Strings as they are, everything else as JSON; at most 20 MB, with a note where more is left out.

    `0`, `false` and `null` keep their meaning; see `to_json` for the rest.

    Raises:
        ToolError: the value has no JSON form; the message says why.
    """
    text = mended(str.__str__(value)) if isinstance(value, str) else to_json(value)
    return _capped(text or EMPTY)


def preview(text: str, limit_bytes: int, call_id: str) -> str:
    """The text where it fits, else its beginning and its end, with a note of its size and of how to read on."""
    content = mended(text).encode()
    if len(content) <= limit_bytes:
        return content.decode()
    room = max(0, limit_bytes - len(_omission(len(content), call_id, len(content)).encode()))
    head, read_bytes = whole_characters(content[: room - room // 4])
    tail, _ = whole_characters(content[len(content) - room // 4 :])
    return head + _omission(len(content), call_id, read_bytes) + tail


def whole_characters(piece: bytes) -> tuple[str, int]:
    """The characters that stand whole in a piece of UTF-8 text, and where in the piece the last of them ends."""
    begun = piece.lstrip(_CONTINUATION)
    text = begun.decode("utf-8", "ignore")
    return text, len(piece) - len(begun) + len(text.encode())


def split_images(value: Any) -> tuple[Any, tuple[str, ...]]:
    """What a tool returned without its images, and these: a list that holds parts of type `image_url` may have some.

    Each image leaves a mark in the text, so that a model which sees none knows that there was one.
    """
    if not isinstance(value, list) or not any(map(_is_image, value)):
        return value, ()
    images = tuple(str(part["image_url"]["url"]) for part in value if _is_image(part))
    texts = ["[image]" if _is_image(part) else _part_text(part) for part in value]
    return "\n".join(texts), images


def _is_image(part: Any) -> bool:
    """Whether it is an image that a provider could take; anything else is text."""
    if (
        not isinstance(part, Mapping)
        or part.get("type") != "image_url"
        or not isinstance(part.get("image_url"), Mapping)
    ):
        return False
    url = part["image_url"].get("url")
    return isinstance(url, str) and url.startswith(("https://", "data:image/"))


def _part_text(part: Any) -> str:
    return str(part["text"]) if isinstance(part, Mapping) and part.get("type") == "text" else to_json(part)


def _capped(text: str) -> str:
    content = text.encode()
    if len(content) <= MAX_KEPT_BYTES:
        return text
    note = f"\n… (cut here: of {len(content)} bytes no more than {MAX_KEPT_BYTES} are kept)"
    return whole_characters(content[: MAX_KEPT_BYTES - len(note.encode())])[0] + note


def _omission(total_bytes: int, call_id: str, offset_bytes: int) -> str:
    reading = f'read_result(call_id="{call_id}", offset_bytes={offset_bytes})'
    return f"\n… [{total_bytes} bytes in all, of which the middle is left out: {reading} reads on] …\n"
