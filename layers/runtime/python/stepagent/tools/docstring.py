"""A docstring as what a model reads: what the tool does, and what each argument means."""

import inspect
import re
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

_HEADER = re.compile(r"(Args|Arguments|Parameters):\s*")
_ENTRY = re.compile(r"(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


class Docstring(NamedTuple):
    """`text` is the docstring, dedented and without its section of arguments; `arguments` says what each one means."""

    text: str
    arguments: dict[str, str]


def read_docstring(written: str | None) -> Docstring:
    """Reads a docstring in Google's style; one in another style is all text."""
    lines = inspect.cleandoc(written or "").splitlines()
    start = next((number for number, line in enumerate(lines) if _HEADER.fullmatch(line)), len(lines))
    following = range(start + 1, len(lines))
    end = next((number for number in following if lines[number] and not lines[number][0].isspace()), len(lines))
    parts = "\n".join(lines[:start]).rstrip(), "\n".join(lines[end:])
    return Docstring("\n\n".join(filter(None, parts)), _entries(lines[start + 1 : end]))


def _entries(section: Sequence[str]) -> dict[str, str]:
    """Each argument's words; a line that is indented further goes on with those of the argument above it."""
    entries: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent("\n".join(section)).splitlines():
        if entry := _ENTRY.fullmatch(line):
            name, entries[entry[1]] = entry[1], entry[2]
        elif name:
            entries[name] = f"{entries[name]} {line.strip()}".strip()
    return entries
