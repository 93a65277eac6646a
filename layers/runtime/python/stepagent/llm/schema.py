"""Parameters of a tool as a JSON Schema: in order for the validator, and in the dialect that a provider takes."""

from typing import Any, Literal

from stepagent.llm.dialects import closed, expressible, gemini
from stepagent.llm.references import written_out
from stepagent.llm.schema_parts import MAX_DEPTH, SCHEMA_WORDS, TYPES, Schema, with_parts, without
from stepagent.llm.simple_schema import flat, simplified

Dialect = Literal["openai", "openai_strict", "gemini", "plain"]

_FORMS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(SCHEMA_WORDS, (dict, bool)),
    **dict.fromkeys(("description", "title", "format", "pattern"), str),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", "prefixItems"), list),
    **dict.fromkeys(("properties", "patternProperties"), dict),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), int),
    "nullable": bool,
    "items": (dict, bool, list),
}
_NEVER_EMPTY = ("enum", "allOf", "anyOf", "oneOf", "prefixItems")


def for_provider(parameters: Any, dialect: Dialect) -> Schema:
    """A copy of the parameters that holds nothing that this dialect's providers refuse.

    It may take more than the original, which stays the measure for what the model sends. In `openai_strict`, what
    cannot be expressed (see `strict_possible`) comes in the `openai` dialect.
    """
    schema = _tidy(in_order(written_out(parameters)))
    match dialect:
        case "plain":
            return schema
        case "openai":
            return _openai(schema)
        case "gemini":
            return gemini(simplified(schema))
        case "openai_strict":
            simple = simplified(schema)
            return closed(without(simple, "nullable")) if expressible(simple) else _openai(schema)


def strict_possible(parameters: Any) -> bool:
    """Whether the strict dialect can express the parameters: no free-form object, no value of any type, no depth."""
    return expressible(simplified(_tidy(in_order(written_out(parameters)))))


def in_order(parameters: Any) -> Schema:
    """The parameters as a schema of an object, without the slips that would let no value pass. References stay."""
    schema = _mended(parameters, 0) if isinstance(parameters, dict) else {}
    named = _types(schema.get("type"))
    if named and "object" not in named:  # arguments are an object, whatever else it says
        return {"type": "object"}
    return {"type": "object", **without(schema, "type")}


def _mended(schema: Any, depth: int) -> Any:
    if not isinstance(schema, dict):
        return schema
    if depth > MAX_DEPTH:
        return {}
    mended = with_parts(schema, lambda part: _mended(part, depth + 1))
    if mended.get("type", "") is None:
        del mended["type"]
    if mended.get("nullable") is True and mended.get("type") in sorted(TYPES - {"null"}):  # so OpenAPI says it
        mended = {**without(mended, "nullable"), "type": [mended["type"], "null"]}
    if isinstance(mended.get("type"), list):  # YAML reads `[string, null]` as a name and a null
        mended["type"] = ["null" if name is None else name for name in mended["type"]]
    if mended.get("enum") == []:
        del mended["enum"]
    return _choices_in_items(mended) if "array" in _types(mended.get("type")) else mended


def _choices_in_items(schema: Schema) -> Schema:
    """An array whose choices are those of its items, which is what a list of other values than arrays means."""
    choices, items = schema.get("enum"), schema.get("items", {})
    if not isinstance(choices, list) or any(isinstance(choice, list) for choice in choices):
        return schema
    rest = without(schema, "enum")
    return {**rest, "items": {"enum": choices, **items}} if isinstance(items, dict) else rest


def _tidy(schema: Any) -> Schema:
    """The schema, written out, with only such words as have the form that they must have."""
    named = _types(schema.get("type"))
    kind = {"type": named[0] if len(named) == 1 else named} if named else {}
    tidy = {**kind, **with_parts(without(schema, "type"), _tidy)}
    tidy = {word: value for word, value in tidy.items() if isinstance(value, _FORMS.get(word, object))}
    tidy = without(tidy, *(word for word in _NEVER_EMPTY if tidy.get(word) == []))
    if isinstance(items := tidy.get("items"), bool | list):  # a list of them was the older word for `prefixItems`
        tidy |= {"items": {}, **({"prefixItems": items} if items and isinstance(items, list) else {})}
    if "object" in named:
        tidy.setdefault("properties", {})
    if "required" in tidy:
        tidy["required"] = [name for name in tidy["required"] if isinstance(name, str)]
    return tidy


def _openai(schema: Schema) -> Schema:
    """The schema without alternatives at its top, where they are refused, and with `items` on each array."""
    return _with_items(flat(schema))


def _with_items(schema: Schema) -> Schema:
    full = with_parts(schema, _with_items)
    return {**full, "items": full.get("items", {})} if "array" in _types(full.get("type")) else full


def _types(named: Any) -> list[str]:
    """The types that a `type` names, of those that there are."""
    names = named if isinstance(named, list) else [named]
    return list(dict.fromkeys(name.lower() for name in names if isinstance(name, str) and name.lower() in TYPES))
