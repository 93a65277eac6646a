"""A tool's return value as the text that the model reads."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

EMPTY = "(empty)"


def to_text(value: Any, limit_bytes: int) -> str:
    """Strings as they are, everything else as JSON; at most `limit_bytes` of UTF-8, with a note of what was cut.

    Dates, decimals and bytes (base64) have a JSON form; `0`, `false` and `null` keep their meaning.

    Raises:
        TypeError: the value has no JSON form.
    """
    text = value if isinstance(value, str) else _json(value)
    return _shorten(text or EMPTY, limit_bytes)


def _json(value: Any) -> str:
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="strings").decode()
    except ValueError as error:
        raise TypeError(f"A value of type {type(value).__name__} has no JSON form.") from error


def _shorten(text: str, limit_bytes: int) -> str:
    content = text.encode("utf-8", "replace")
    if len(content) <= limit_bytes:
        return content.decode()
    kept = content[:limit_bytes].decode("utf-8", "ignore")
    return f"{kept}\n… (cut: the first {len(kept.encode())} of {len(content)} bytes)"


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
    return str(part["text"]) if isinstance(part, Mapping) and part.get("type") == "text" else _json(part)
