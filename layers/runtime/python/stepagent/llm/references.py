"""References inside a JSON Schema: followed, or replaced by what they name."""

import json
from typing import Any
from urllib.parse import unquote

from stepagent.llm.schema_parts import LIST_WORDS, MAP_WORDS, MAX_DEPTH, Schema, both, with_parts

MAX_CHARS = 100_000  # of one written-out schema; a few definitions that name each other twice would grow without end


def target(root: Any, reference: str) -> Any:
    """What a reference inside this document names; an empty schema, which takes anything, where it leads elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
        return {}
    found = root
    for step in unquote(reference[1:]).split("/")[1:]:
        found = _child(found, step.replace("~1", "/").replace("~0", "~"))
    return found if isinstance(found, dict | bool) else {}


def written_out(root: Any) -> Schema:
    """A copy with each reference replaced by what it names, and without private words (`x-…`) and those with a `$`.

    A definition inside itself, what leads out of the document and what is beyond the limits takes anything.
    """
    return _Writer(root).copy(root, (), 0)


class _Writer:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._chars = MAX_CHARS

    def copy(self, schema: Any, inside: tuple[str, ...], depth: int) -> Schema:
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._chars <= 0:
            return {}
        own = {word: value for word, value in schema.items() if _is_public(word)}
        self._chars -= sum(_weight(word, value) for word, value in own.items())
        written = with_parts(own, lambda part: self.copy(part, inside, depth + 1), self._plain)
        reference = schema.get("$ref")
        return both(written, self._named(reference, inside, depth)) if isinstance(reference, str) else written

    def _named(self, reference: str, inside: tuple[str, ...], depth: int) -> Schema:
        found = target(self._root, reference)
        if reference not in inside:
            return self.copy(found, (*inside, reference), depth + 1)
        known = found.get("type") if isinstance(found, dict) else None
        return {"type": known} if isinstance(known, str) else {}

    def _plain(self, value: Any) -> Any:
        """A copy of what is no schema, as JSON has it; dates and the like, which YAML makes, become text."""
        try:
            text = json.dumps(value, default=str, skipkeys=True)
        except (ValueError, RecursionError):  # a list inside itself, which YAML can say
            return None
        self._chars -= len(text)
        return json.loads(text, parse_constant=lambda _: None)


def _child(parent: Any, step: str) -> Any:
    if isinstance(parent, list) and step.isascii() and step.isdigit() and len(step) < 6 and int(step) < len(parent):
        return parent[int(step)]
    return parent.get(step) if isinstance(parent, dict) else None


def _is_public(word: Any) -> bool:
    return isinstance(word, str) and not word.startswith(("$", "x-")) and word != "definitions"


def _weight(word: str, value: Any) -> int:
    """About how many characters the frame of a word takes; what is in it is weighed when it is copied."""
    names = sum(len(str(name)) + 6 for name in value) if word in MAP_WORDS and isinstance(value, dict) else 0
    places = 4 * len(value) if word in LIST_WORDS and isinstance(value, list) else 0
    return len(word) + 6 + names + places
