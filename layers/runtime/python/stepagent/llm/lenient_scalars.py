"""Strings, numbers and words of JSON as models write it."""

import math
import re

from stepagent.llm.fragments import mended

_MAX_DIGITS = 4300  # Python converts no longer integers, because that takes quadratic time
_CLOSING_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’", "’": "’", "＂": "＂", "＇": "＇"}
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_WORD = re.compile(r"(?:[^\W\d]|\$)[\w$-]*")
_NUMBER_CHARACTERS = re.compile(r"-?[\w.]*(?:(?<=[eE])[+-]\w*)?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BEGUN_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.|(?:\.[0-9]+)?[eE][+-]?)?)?")
# A string goes on to its closing quote; one in typographic quotes must not hold an opening one, which would be a guess.
_BODIES = {
    opening: re.compile(rf"[^\\{closing}{opening}]*(?:\\.[^\\{closing}{opening}]*)*", re.DOTALL)
    for opening, closing in _CLOSING_QUOTES.items()
}
_ESCAPES_IN_ORDER = re.compile(r"""[^\\]*(?:\\(?:["'“”‘’＂＇\\/bfnrt]|u[0-9a-fA-F]{4})[^\\]*)*""")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")


class Malformed(ValueError):
    """It is no JSON, whatever may follow."""


class Incomplete(ValueError):
    """It ends before its value does: in a stream, more may come."""


def finite(number: str) -> float:
    """The number.

    Raises:
        Malformed: it is too large for a float, which would read it as infinite.
    """
    value = float(number)
    if not math.isfinite(value):
        raise Malformed(f"{number[:20]} is too large")
    return value


def starts_string(character: str) -> bool:
    """Whether it is a quote of any kind."""
    return character in _CLOSING_QUOTES


def read_key(text: str, at: int) -> tuple[str, int]:
    """The key, in quotes or bare, that begins at `at`, and where it ends."""
    if starts_string(text[at]):
        return read_string(text, at)
    word = _WORD.match(text, at)
    if not word:
        raise Malformed(f"a key is missing at character {at}")
    return mended(word[0]), word.end()


def read_string(text: str, at: int) -> tuple[str, int]:
    """The string whose opening quote stands at `at`, and where it ends. Line breaks in it are taken as they are."""
    opening = text[at]
    body = _BODIES[opening].match(text, at + 1)
    end = body.end() if body else at + 1
    if end >= len(text) or text[end] == "\\":
        raise Incomplete("it ends inside a string")
    if text[end] != _CLOSING_QUOTES[opening]:
        raise Malformed(f"the quotes are not clear at character {end}")
    return mended(_unescaped(text[at + 1 : end], _CLOSING_QUOTES[opening])), end + 1


def _unescaped(body: str, quote: str) -> str:
    if _ESCAPES_IN_ORDER.fullmatch(body):
        return _ESCAPE.sub(_character, body)
    # One escape is none (`C:\Users\tom`), so no backslash here was meant as one, except before the closing quote.
    if _CONTROL.search(body):
        raise Malformed("a string holds both a wrong escape and a tab or line break")
    return body.replace("\\" + quote, quote)


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2])


def read_number(text: str, at: int) -> tuple[int | float, int]:
    """The number that begins at `at`, with every digit of an integer, and where it ends."""
    run = _NUMBER_CHARACTERS.match(text, at)
    written = run[0] if run else ""
    number = _NUMBER.fullmatch(written)
    if not number:
        if at + len(written) == len(text) and _BEGUN_NUMBER.fullmatch(written):
            raise Incomplete("it ends inside a number")
        raise Malformed(f"{written[:20]} is not JSON, at character {at}")
    if number[1] or number[2]:
        return finite(written), at + len(written)
    if len(written) > _MAX_DIGITS:
        raise Malformed(f"a number of {len(written)} digits is too long")
    return int(written), at + len(written)


def read_word(text: str, at: int) -> tuple[bool | None, int]:
    """The constant that begins at `at`, in the words of JSON or of Python, and where it ends."""
    run = _WORD.match(text, at)
    word = run[0] if run else text[at]
    if word in _WORDS:
        return _WORDS[word], at + len(word)
    if at + len(word) == len(text) and any(known.startswith(word) for known in _WORDS):
        raise Incomplete("it ends inside a word")
    raise Malformed(f"{mended(word[:20])} is not JSON, at character {at}")
