"""The two dialects of JSON Schema that take much less than all of it, made from simplified schemas."""

import json

from stepagent.llm.schema_parts import Schema, only, with_parts

_COMMON_WORDS = frozenset({"type", "description", "minItems", "maxItems", "minimum", "maximum"})
_GEMINI_WORDS = _COMMON_WORDS | {"nullable", "minLength", "maxLength"}
_STRICT_WORDS = _COMMON_WORDS | {"multipleOf", "enum", "items", "anyOf"}
_STRICT_LEVELS = 10
_LISTED_CHARS = 500


def gemini(schema: Schema) -> Schema:
    """The parameters for Gemini: one type a schema, choices of text only, no object without members but the first."""
    properties = {name: _gemini(part) for name, part in schema.get("properties", {}).items()}
    return {"type": "object", **only(schema, {"description"}), "properties": properties, **_required(schema)}


def _gemini(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return _gemini_alternatives(schema)
    kind, properties = schema.get("type"), schema.get("properties")
    if kind is None:
        return _as_text(schema, "Any JSON value, as text.")
    if kind == "null":
        return {**_as_text(schema, "Always null."), "nullable": True}
    if kind == "object" and not properties:
        return _as_text(schema, "A JSON object, as text.")
    kept = only(schema, _GEMINI_WORDS)
    if properties:
        kept |= {"properties": {name: _gemini(part) for name, part in properties.items()}, **_required(schema)}
    if kind == "array":
        kept["items"] = _gemini(_items(schema))
    return _gemini_choices(kept, schema)


def _gemini_alternatives(schema: Schema) -> Schema:
    """Alternatives alone: beside them no other word may stand, so description and null go into each."""
    outer = only(schema, {"description", "nullable"})
    return {"anyOf": [_gemini({**outer, **branch}) for branch in schema["anyOf"]]}


def _gemini_choices(kept: Schema, schema: Schema) -> Schema:
    choices = schema.get("enum")
    if not choices:
        return kept
    if kept["type"] == "string" and all(isinstance(choice, str) and choice for choice in choices):
        return {**kept, "enum": choices}
    listed = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    return _described(kept, f"One of: {listed[:_LISTED_CHARS]}.")


def _items(schema: Schema) -> Schema:
    """What an array's items are; those of a tuple may be any of its places."""
    if places := schema.get("prefixItems"):
        return places[0] if len(places) == 1 else {"anyOf": places}
    items = schema.get("items", {})
    return items if isinstance(items, dict) else {}


def _as_text(schema: Schema, hint: str) -> Schema:
    return _described({"type": "string", **only(schema, {"description", "nullable"})}, hint)


def _described(schema: Schema, hint: str) -> Schema:
    return {**schema, "description": f"{schema.get('description', '')} {hint}".strip()}


def _required(schema: Schema) -> Schema:
    """What is required of what there is; an empty list is left out."""
    names = [name for name in schema.get("required", []) if name in schema.get("properties", {})]
    return {"required": names} if names else {}


def expressible(schema: Schema, level: int = 1) -> bool:
    """Whether the strict dialect can say it: each part has a type, each object its members and no others."""
    if level > _STRICT_LEVELS:
        return False
    if "anyOf" in schema:
        return level > 1 and all(expressible(branch, level) for branch in schema["anyOf"])
    match schema.get("type"):
        case "object":
            return _is_closed(schema, level) and all(
                expressible(part, level + 1) for part in schema["properties"].values()
            )
        case "array":
            return "prefixItems" not in schema and expressible(schema.get("items", {}), level + 1)
        case kind:
            return kind is not None


def _is_closed(schema: Schema, level: int) -> bool:
    """Whether it names all its members. One without members is open, but for the parameters themselves."""
    others = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
    named = bool(schema.get("properties")) or others is False or level == 1
    return named and others in (None, False) and "patternProperties" not in schema


def closed(schema: Schema) -> Schema:
    """An expressible schema in the strict dialect: no other members, all required, the optional ones nullable."""
    words = _STRICT_WORDS if schema.get("type") == "array" else _STRICT_WORDS - {"items"}
    strict = with_parts(only(schema, words), closed)
    if schema.get("type") == "object":
        properties, required = schema["properties"], schema.get("required", [])
        strict["properties"] = {
            name: closed(part if name in required else {**part, "nullable": True}) for name, part in properties.items()
        }
        strict |= {"required": list(properties), "additionalProperties": False}
    return _with_null(strict) if schema.get("nullable") else strict


def _with_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    kinds = schema["type"] if schema["type"] == "null" else [schema["type"], "null"]
    return {**schema, "type": kinds, **choices}
