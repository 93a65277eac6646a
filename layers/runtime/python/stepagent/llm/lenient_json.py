"""JSON as models write it: slips that leave the meaning clear are read, anything else is refused."""

import re
from typing import Any

from stepagent.llm.lenient_scalars import (
    Incomplete,
    Malformed,
    read_key,
    read_number,
    read_string,
    read_word,
    starts_string,
)

__all__ = ["MAX_DEPTH", "Incomplete", "Malformed", "read_value", "read_whole", "strip_fence"]

MAX_DEPTH = 100  # what the record, the validator and the stack of a reader still hold

_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = "{｛", "}｝", "[［", "]］"
_COLON, _COMMA = ":：", ",，、"

_BLANK = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|#[^\n]*|/\*.*?\*/)*", re.DOTALL)
_FENCE_START = re.compile(
    r"""(`{3,})(?:[^\n`{\["'“‘]*\n|[ \t]*(?:json[5c]?|javascript|js|python|py)?)""", re.IGNORECASE
)
_FENCE_END = re.compile(r"\s*(?:`{3,}\s*)?")


def read_value(text: str, start: int = 0) -> tuple[Any, int]:
    """The first JSON value from `start` on, after blanks and comments, and the place where it ends.

    A number at the end of the text counts as whole. Half a surrogate pair becomes U+FFFD.

    Raises:
        Incomplete: the text ends before the value does.
        Malformed: there is no value; or a key stands twice, or it is nested too deep.
    """
    return _value(text, start, 1)


def read_whole(text: str) -> Any:
    """The one JSON value that the text holds, also inside a Markdown fence.

    Raises:
        Incomplete: the text ends before the value does.
        Malformed: there is no value, or something follows it.
    """
    body = strip_fence(text)
    value, end = read_value(body)
    if not _FENCE_END.fullmatch(body, end):
        raise Malformed(f"something follows the value that ends at character {end}")
    return value


def strip_fence(text: str) -> str:
    """The text without the one Markdown fence around it, on lines of its own or not; also without its closing line."""
    stripped = text.strip("\ufeff \t\r\n")
    start = _FENCE_START.match(stripped)
    if not start:
        return text
    body = stripped[start.end() :]
    return body.removesuffix(start[1]).strip()


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    at = _skip(text, at)
    first = text[at]
    if starts_string(first):
        return read_string(text, at)
    if first in _OPEN_OBJECT:
        return _object(text, at, depth)
    if first in _OPEN_ARRAY:
        return _array(text, at, depth)
    if first == "-" or first.isdecimal():
        return read_number(text, at)
    return read_word(text, at)


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = _enter(text, at, depth)
    while text[at] not in _CLOSE_OBJECT:
        key, end = read_key(text, at)
        if key in members:
            raise Malformed(f"the key {key[:40]!r} stands twice, again at character {at}")
        colon = _skip(text, end)
        if text[colon] not in _COLON:
            raise Malformed(f"a colon is missing at character {colon}")
        members[key], end = _value(text, colon + 1, depth + 1)
        at = _next(text, end, _CLOSE_OBJECT)
    return members, at + 1


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = _enter(text, at, depth)
    while text[at] not in _CLOSE_ARRAY:
        item, end = _value(text, at, depth + 1)
        items.append(item)
        at = _next(text, end, _CLOSE_ARRAY)
    return items, at + 1


def _enter(text: str, at: int, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise Malformed(f"it is nested more than {MAX_DEPTH} levels deep")
    return _skip(text, at + 1)


def _next(text: str, at: int, closing: str) -> int:
    """Where the next member begins, or the bracket that closes; a comma before it is no fault."""
    at = _skip(text, at)
    if text[at] in _COMMA:
        return _skip(text, at + 1)
    if text[at] not in closing:
        raise Malformed(f"a comma or a closing bracket is missing at character {at}")
    return at


def _skip(text: str, at: int) -> int:
    """The next character that is neither blank nor comment; there is one."""
    blank = _BLANK.match(text, at)
    at = blank.end() if blank else at
    if at >= len(text) or text.startswith("/*", at) or text.endswith("/", at):
        raise Incomplete("it ends before the value does")
    return at
