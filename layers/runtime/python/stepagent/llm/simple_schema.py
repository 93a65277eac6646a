"""JSON Schema in the few words that every provider's dialect can be made from."""

from collections.abc import Sequence
from typing import Any

from stepagent.llm.schema_parts import Schema, both, only, with_parts, without

_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_WORDS_OF = {
    "object": ("properties", "required", "additionalProperties", "unevaluatedProperties", "patternProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
}
_UNSAID = ("not", "if", "then", "else", "contains", "propertyNames", "dependentSchemas", "unevaluatedItems")


def flat(schema: Schema) -> Schema:
    """A schema of an object whose alternatives are merged into it: members of all, required what each requires."""
    merged = _all_of(schema)
    branches = _alternatives(merged)
    rest = without(merged, "anyOf", "oneOf", "not", "enum", "const")
    return _union(rest, [_all_of(branch) for branch in branches]) if branches else rest


def simplified(schema: Schema) -> Schema:
    """The schema with `allOf` merged, and each part with one `type`, or with `anyOf`, or taking anything.

    Null is said by `nullable`, one value by `enum`. The rest keeps its words.
    """
    merged = _all_of(schema)
    if merged.get("type") == "object" and _alternatives(merged):
        merged = flat(merged)
    merged = _without_null(_chosen(merged))
    if isinstance(merged.get("type"), list):
        merged = _split(merged)
    alternatives = merged.get("anyOf", [])
    if len(alternatives) == 1:
        return simplified({**alternatives[0], **without(merged, "anyOf")})
    if "type" not in merged and not alternatives and (kind := _implied_type(merged)):
        merged["type"] = kind
    return with_parts(merged, simplified)


def _all_of(schema: Schema) -> Schema:
    merged = without(schema, "allOf")
    for part in schema.get("allOf", []):
        merged = both(merged, _all_of(part))
    return merged


def _union(schema: Schema, branches: Sequence[Schema]) -> Schema:
    properties = dict(schema.get("properties", {}))
    for branch in branches:
        properties = {**branch.get("properties", {}), **properties}
    always = set.intersection(*(set(branch.get("required", [])) for branch in branches))
    required = [*schema.get("required", []), *sorted(always)]
    return {**schema, "properties": properties, "required": list(dict.fromkeys(required))}


def _alternatives(schema: Schema) -> list[Schema]:
    found = schema.get("anyOf") or schema.get("oneOf") or []
    return [branch for branch in found if isinstance(branch, dict)]


def _chosen(schema: Schema) -> Schema:
    """With `anyOf` for `oneOf` and `enum` for `const`. A named type goes before alternatives, which only narrow it."""
    chosen = without(schema, "anyOf", "oneOf", "const", *_UNSAID)
    if "const" in schema:
        chosen["enum"] = [schema["const"]]
    if (alternatives := _alternatives(schema)) and "type" not in schema:
        chosen["anyOf"] = alternatives
    return chosen


def _without_null(schema: Schema) -> Schema:
    """With `nullable` for a null among the types, the alternatives or the values."""
    plain = dict(schema)
    if isinstance(kinds := schema.get("type"), list) and "null" in kinds:
        rest = [kind for kind in kinds if kind != "null"]
        plain |= {"type": rest[0] if len(rest) == 1 else rest, "nullable": True}
    branches = [branch for branch in schema.get("anyOf", []) if branch.get("type") != "null"]
    if 0 < len(branches) < len(schema.get("anyOf", [])):
        plain |= {"anyOf": branches, "nullable": True}
    values = [value for value in schema.get("enum", []) if value is not None]
    if 0 < len(values) < len(schema.get("enum", [])):
        plain |= {"enum": values, "nullable": True}
    return plain


def _split(schema: Schema) -> Schema:
    """One alternative for each of several types; what they are described by stays outside."""
    outside = only(schema, {"description", "nullable"})
    inside = without(schema, "type", *outside)
    return {**outside, "anyOf": [_of_type(inside, kind) for kind in schema["type"]]}


def _of_type(schema: Schema, kind: str) -> Schema:
    values = [value for value in schema.get("enum", []) if _kind(value) == kind]
    others = (word for other, words in _WORDS_OF.items() if other != kind for word in words)
    return {**without(schema, "enum", *others), "type": kind, **({"enum": values} if values else {})}


def _implied_type(schema: Schema) -> str:
    """The type of all its values, or the one that its words are for; nothing where neither tells."""
    kinds = {_kind(value) for value in schema.get("enum", [])}
    if kinds:
        return kinds.pop() if len(kinds) == 1 else ""
    return next((kind for word, kind in (("properties", "object"), ("items", "array")) if word in schema), "")


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS[type(value)]
