"""URLs with places for arguments, which change what is asked for and never where."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import quote, unquote, urlencode

from stepagent.web.errors import WebRefused
from stepagent.web.urls import Url

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_PARTS = re.compile(r"(?P<origin>[^/?#{}]*://[^/?#{}]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?")
_UNQUOTED = 5  # times; who decodes a path more often than once is wrong, and some do


class UrlTemplate(NamedTuple):
    """A URL such as `https://api.example.com/items/{id}?lang={lang}`, where braces hold the names of arguments.

    They stand in the path or are values of the query, nowhere else.
    """

    origin: str
    path: str
    query: Sequence[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a template.

        Raises:
            ValueError: it is none; the message says what to change.
        """
        parts = _PARTS.fullmatch(text)
        if parts is None:
            raise ValueError("write the URL as https://host/path?name=value, with placeholders behind the host only")
        template = cls(
            parts["origin"], parts["path"] or "/", (parts["query"] or "").split("&") if parts["query"] else ()
        )
        for place in (template.path, *(pair.partition("=")[2] for pair in template.query)):
            if re.search("[{}]", _PLACEHOLDER.sub("", place)):
                raise ValueError("write a placeholder as the name of an argument in braces, such as {item_id}")
        if any(re.search("[{}]", pair.partition("=")[0]) for pair in template.query):
            raise ValueError("a placeholder in the query must be a value, such as lang={lang}")
        if any(_is_dots(segment) for segment in template.path.split("/")):
            raise ValueError("write the path without the segments . and ..")
        try:
            template.example()
        except WebRefused as error:
            raise ValueError(error.message) from error
        return template

    def example(self) -> Url:
        """The URL with something in place of each argument: the host of all its URLs."""
        return Url.parse(self.origin + _PLACEHOLDER.sub("x", self.path + "?" + "&".join(self.query)))

    @property
    def in_path(self) -> frozenset[str]:
        """The arguments without which there is no URL."""
        return frozenset(_PLACEHOLDER.findall(self.path))

    @property
    def in_query(self) -> frozenset[str]:
        return frozenset(_PLACEHOLDER.findall("&".join(self.query)))

    def fill(self, values: Mapping[str, Any], more: Sequence[tuple[str, str]] = ()) -> Url:
        """The URL for these arguments, with `more` behind its query. A pair of the query without a value is left out.

        Raises:
            WebRefused: an argument of the path is missing or would lead to another path, or the URL is too long.
        """
        path = "/".join(_filled_segment(segment, values) for segment in self.path.split("/"))
        query = "&".join([*self._filled_query(values), *([urlencode(more, quote_via=quote)] if more else [])])
        return Url.parse(f"{self.origin}{path}?{query}" if query else self.origin + path)

    def _filled_query(self, values: Mapping[str, Any]) -> Iterator[str]:
        for pair in self.query:
            if all(values.get(name) is not None for name in _PLACEHOLDER.findall(pair)):
                yield _PLACEHOLDER.sub(lambda found: _quoted(as_text(values[found[1]])), pair)


def as_text(value: Any) -> str:
    """An argument where there is only text: true and false as JSON has them, lists and objects as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list | dict) else str(value)


def _filled_segment(segment: str, values: Mapping[str, Any]) -> str:
    """One segment of the path, which stays one, also for servers that decode it too early or too often."""
    names = _PLACEHOLDER.findall(segment)
    if wrong := [name for name in names if not _fits_a_path(values.get(name))]:
        raise WebRefused(f"{wrong[0]} is a part of the path: it must be a text or a number, and not empty.")
    decoded = filled = _PLACEHOLDER.sub(lambda found: _quoted(as_text(values[found[1]])), segment)
    for _ in range(_UNQUOTED):
        decoded = unquote(decoded)
    if any(part in (".", "..") for part in re.split(r"[/\\]", decoded)):
        raise WebRefused(f"{' and '.join(names)} is a part of the path: it must not make . or .. between slashes.")
    return filled


def _fits_a_path(value: Any) -> bool:
    return value is not None and value != "" and not isinstance(value, list | dict)


def _is_dots(segment: str) -> bool:
    return unquote(segment) in (".", "..")


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")
