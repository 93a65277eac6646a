"""Markdown cut into passages: what stands under one heading, or a part of it that a model can read at a glance."""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_CHARS = 1_500

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*")
_FENCE = re.compile(r"\s*(```|~~~)")


class Passage(NamedTuple):
    """Text of a file. `heading` names the headings that it stands under, from the top."""

    file: str
    heading: str
    text: str


def cut(file: str, markdown: str) -> Iterator[Passage]:
    """The passages of a file in order; one without headings is its text in parts."""
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        heading = None if fenced else _HEADING.fullmatch(line)
        fenced ^= bool(_FENCE.match(line))
        if not heading:
            lines.append(line)
            continue
        yield from _passages(file, headings, lines)
        level = len(heading[1])
        headings, lines = [*(above for above in headings if above[0] < level), (level, heading[2])], []
    yield from _passages(file, headings, lines)


def _passages(file: str, headings: list[tuple[int, str]], lines: list[str]) -> Iterator[Passage]:
    heading = " > ".join(name for _, name in headings)
    return (Passage(file, heading, text) for text in _parts("\n".join(lines).strip()))


def _parts(text: str) -> Iterator[str]:
    """Whole paragraphs together, as many as fit; one that does not fit alone is cut."""
    part = ""
    for paragraph in re.split(r"\n\s*\n", text):
        if part and len(part) + len(paragraph) > MAX_CHARS:
            yield part
            part = ""
        part = f"{part}\n\n{paragraph}" if part else paragraph
        while len(part) > MAX_CHARS:
            yield part[:MAX_CHARS]
            part = part[MAX_CHARS:]
    if part:
        yield part
