"""Pieces of Markdown."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

_COLUMNS = 118


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column stands left, as words do, and all others right, as numbers do."""
    ruled = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ruled)


def prose(text: str) -> str:
    """One paragraph, its lines broken anew."""
    return textwrap.fill(" ".join(text.split()), _COLUMNS, break_long_words=False, break_on_hyphens=False)


def section(title: str, name: str, result: dict[str, Any], *parts: str) -> str:
    """A section of the page: its command stands beside its figures, with when and beside what they were measured."""
    measured = f"{result['at']}, in {result['took_s']} s, at a load of {result['load_before']} before"
    return "\n\n".join([f"## {title}", f"`python -m bench {name}` · {measured}", *parts])


def picture(what: str, name: str) -> str:
    return f"![{what}](bench-{name}.svg)"
