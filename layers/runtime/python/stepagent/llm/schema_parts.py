"""Where a JSON Schema holds further schemas."""

from collections.abc import Callable, Container
from typing import Any

Schema = dict[str, Any]

MAX_DEPTH = 48  # levels of a schema that are looked at; what is deeper takes anything
TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})

MAP_WORDS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
LIST_WORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
SCHEMA_WORDS = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)


def _same(value: Any) -> Any:
    return value


def with_parts(schema: Schema, change: Callable[[Any], Any], keep: Callable[[Any], Any] = _same) -> Schema:
    """A copy of one schema in which `change` has been at each schema inside, and `keep` at all other values."""
    return {word: _part(word, value, change, keep) for word, value in schema.items()}


def only(schema: Schema, words: Container[str]) -> Schema:
    """The schema's values of these words."""
    return {word: value for word, value in schema.items() if word in words}


def without(schema: Schema, *words: str) -> Schema:
    """The schema's values of all other words."""
    return {word: value for word, value in schema.items() if word not in words}


def both(first: Schema, second: Schema) -> Schema:
    """Two schemas that both hold, in one; where they say different things in one word, the first does."""
    merged = {**second, **first}
    mine, theirs = first.get("properties"), second.get("properties")
    if isinstance(mine, dict) and isinstance(theirs, dict):
        merged["properties"] = {**theirs, **mine}
    mine, theirs = first.get("required"), second.get("required")
    if isinstance(mine, list) and isinstance(theirs, list):
        merged["required"] = [*mine, *(name for name in theirs if name not in mine)]
    return merged


def _part(word: str, value: Any, change: Callable[[Any], Any], keep: Callable[[Any], Any]) -> Any:
    if word in MAP_WORDS and isinstance(value, dict):
        return {name: change(part) for name, part in value.items()}
    if word in LIST_WORDS and isinstance(value, list):
        return [change(part) for part in value]
    if word in SCHEMA_WORDS and isinstance(value, dict):
        return change(value)
    return keep(value)
