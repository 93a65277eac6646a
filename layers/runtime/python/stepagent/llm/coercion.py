"""Values that a model wrote in the wrong type, put into the type that the schema declares."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from jsonschema.protocols import Validator

from stepagent.llm.lenient_json import read_whole
from stepagent.llm.references import target

_MAX_TRIES = 10_000  # alternatives tried for one set of arguments; what is left then stays as it was written
_MAX_NESTED_TRIES = 3  # alternatives within alternatives multiply
_EXACT_INTEGERS = 2**53  # above it a float does not tell which integer was meant
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")


def coerced(value: Any, validator: Validator) -> Any:
    """The value with each part that does not fit its declared type put into it, where only one reading is possible.

    A part that fits stays as it is, but for 3.0, which is 3 where an integer is declared. A null is left out where
    it stands for an optional member that admits none.
    """
    return _Coercion(validator).apply(validator.schema, value)


class _Coercion:
    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._tries = _MAX_TRIES
        self._nested = 0

    def apply(self, schema: Any, value: Any) -> Any:
        """The value under every part of a schema that must hold. A part changes only what does not fit it."""
        if not isinstance(schema, dict):
            return value
        if isinstance(reference := schema.get("$ref"), str):
            value = self.apply(target(self._validator.schema, reference), value)
        value = _typed(_types(schema), value)
        for part in schema.get("allOf", ()):
            value = self.apply(part, value)
        for word in ("anyOf", "oneOf"):
            value = self._choose(schema.get(word, ()), value)
        if isinstance(value, dict):
            return self._members(schema, value)
        if isinstance(value, list):
            return self._items(schema, value)
        return value

    def _choose(self, branches: Iterable[Any], value: Any) -> Any:
        """The value under the first alternative that it fits, or else under the first that it can be made to fit."""
        for branch in branches:
            if self._fits(branch, value):
                return self.apply(branch, value)
        if self._nested == _MAX_NESTED_TRIES:
            return value
        self._nested += 1
        tried = next(self._made(branches, value), value)
        self._nested -= 1
        return tried

    def _made(self, branches: Iterable[Any], value: Any) -> Iterator[Any]:
        """The value as each alternative would have it, where that fits."""
        for branch in branches:
            self._tries -= 1
            if self._tries < 0:
                return
            candidate = self.apply(branch, value)
            if self._fits(branch, candidate):
                yield candidate

    def _members(self, schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        declared, required = schema.get("properties", {}), schema.get("required", ())
        others = None if "patternProperties" in schema else schema.get("additionalProperties")
        members: dict[str, Any] = {}
        for name, member in value.items():
            fit = self.apply(declared.get(name, others), member)
            unset = fit is None and name in declared and name not in required
            if not unset or self._fits(declared[name], None):
                members[name] = fit
        return members

    def _items(self, schema: dict[str, Any], value: list[Any]) -> list[Any]:
        items = schema.get("items")
        first = items if isinstance(items, list) else schema.get("prefixItems", [])
        parts = [*first[: len(value)], *([items] * (len(value) - len(first)))]
        return [self.apply(part, item) for part, item in zip(parts, value, strict=True)]

    def _fits(self, schema: Any, value: Any) -> bool:
        return self._validator.evolve(schema=schema).is_valid(value)


def _types(schema: dict[str, Any]) -> set[str]:
    """The JSON types that it names, or that its listed values have; empty where it names none."""
    named = schema.get("type")
    if named is not None:
        return {named} if isinstance(named, str) else set(named)
    listed = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return {_type_of(value) for value in listed}


def _type_of(value: Any) -> str:
    kinds: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else kinds.get(type(value), "object")


def _typed(types: set[str], value: Any) -> Any:
    if isinstance(value, str) and types and "string" not in types:
        value = _from_text(types, value)
    if isinstance(value, float) and "integer" in types and "number" not in types:
        return int(value) if value.is_integer() and abs(value) <= _EXACT_INTEGERS else value
    return value


def _from_text(types: set[str], text: str) -> Any:
    """What the text says, where that has one of the types: a constant or a number in exactly JSON's form, or JSON."""
    if not _SCALAR.fullmatch(text) and types.isdisjoint({"object", "array"}):
        return text
    try:
        value = read_whole(text)
    except ValueError:
        return text
    kind = _type_of(value)
    if kind not in {"object", "array"} and not _SCALAR.fullmatch(text):
        return text
    return value if kind in types or (kind == "integer" and "number" in types) else text
