"""What a case asserts of the tools that a provider is sent."""

import json
import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from tests.conformance.cases import Json
from tests.conformance.evidence import Evidence

Complaint = str | None

_GEMINI = {"type", "description", "nullable", "enum", "items", "properties", "required", "anyOf", "format", "title"}
_GEMINI |= {"minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "default", "pattern"}
_STRICT = {"type", "description", "enum", "items", "properties", "required", "anyOf", "additionalProperties", "const"}
_STRICT |= {"minItems", "maxItems", "minimum", "maximum", "multipleOf", "pattern", "format", "$defs", "$ref"}
_INNER = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def names(seen: Evidence) -> list[str]:
    return [tool["name"] for tool in seen.sent_tools] or [
        each["function"]["name"] for body in seen.bodies[-1:] for each in body.get("tools", [])
    ]


def alias_pattern(expected: str, seen: Evidence) -> Complaint:
    wrong = [name for name in names(seen) if not re.search(expected, name)]
    return f"name {wrong[0]!r}" if wrong else None if names(seen) else "no tools were sent"


def alias_unique(expected: bool, seen: Evidence) -> Complaint:
    return None if (len(set(names(seen))) == len(names(seen))) == expected else f"names {names(seen)}"


def alias_count(expected: int, seen: Evidence) -> Complaint:
    return None if len(set(names(seen))) == expected else f"names {names(seen)}"


def sent_parameters(expected: Any, seen: Evidence) -> Complaint:
    """One schema for each tool, or one for all, or one a name."""
    for position, tool in enumerate(seen.sent_tools):
        wanted = expected[position] if isinstance(expected, list) else expected.get(tool["name"], expected)
        if tool["parameters"] != wanted:
            return f"{tool['name']}: {json.dumps(tool['parameters'], ensure_ascii=False)}"
    if not seen.facts.get("caller_unchanged", True):
        return "the caller's definition was changed"
    return None if seen.sent_tools else "no tools were sent"


def no_ref_in_sent(expected: bool, seen: Evidence) -> Complaint:
    found = '"$ref"' in json.dumps([tool["parameters"] for tool in seen.sent_tools])
    return None if found != expected else "a $ref is sent"


def terminates_ms(expected: float, seen: Evidence) -> Complaint:
    return f"it took {seen.took_ms:.0f} ms" if seen.took_ms > expected else None


def all_objects_closed(expected: bool, seen: Evidence) -> Complaint:
    for tool in seen.sent_tools:
        for schema in parts_of(tool["parameters"]):
            if "object" not in _types(schema):
                continue
            members = set(schema.get("properties", {}))
            closed = schema.get("additionalProperties") is False and set(schema.get("required", [])) == members
            if closed != expected:
                return f"{tool['name']}: {json.dumps(schema, ensure_ascii=False)}"
    return None


def sent_valid_for_provider(expected: bool, seen: Evidence) -> Complaint:
    faults = [fault for tool in seen.sent_tools for fault in _faults(tool["parameters"], seen.provider)]
    return None if bool(faults) != expected else faults[0] if faults else "nothing is wrong with it"


def _faults(parameters: Json, provider: str) -> Iterator[str]:
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        yield f"no schema: {error.message}"
    if parameters.get("type") != "object" or "properties" not in parameters:
        yield "the top is no object with properties"
    if any(word in parameters for word in ("anyOf", "oneOf", "allOf", "not", "enum")):
        yield "alternatives at the top"
    for schema in parts_of(parameters):
        if "array" in _types(schema) and "items" not in schema and "prefixItems" not in schema:
            yield f"an array without items: {schema}"
        if "gemini" in provider:
            yield from _gemini_faults(schema)
        if "strict" in provider:
            yield from (f"{word} in strict mode" for word in schema if word not in _STRICT)


def _gemini_faults(schema: Json) -> Iterator[str]:
    yield from (f"{word} for Gemini" for word in schema if word not in _GEMINI)
    if isinstance(schema.get("type"), list):
        yield f"several types for Gemini: {schema['type']}"
    if "type" not in schema and "anyOf" not in schema:
        yield f"no type for Gemini: {schema}"
    if any(not isinstance(choice, str) or not choice for choice in schema.get("enum", [])):
        yield f"choices that are no texts for Gemini: {schema['enum']}"
    if "anyOf" in schema and set(schema) - {"anyOf", "description", "nullable"}:
        yield f"words beside anyOf for Gemini: {sorted(schema)}"


def parts_of(schema: Any) -> Iterator[Json]:
    """A schema and every schema inside it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for word, value in schema.items():
        for each in _inner(word, value):
            yield from parts_of(each)


def _inner(word: str, value: Any) -> list[Any]:
    """The schemas that one word of a schema holds."""
    if word in _INNER and isinstance(value, dict):
        return list(value.values())
    if word in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return list(value)
    return [value] if word in ("items", "additionalProperties", "not") else []


def _types(schema: Json) -> list[str]:
    named = schema.get("type")
    return named if isinstance(named, list) else [named] if named else []
