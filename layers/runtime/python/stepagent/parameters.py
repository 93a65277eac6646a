"""The parameters of a tool: a JSON Schema of type object, less what is bound, and closed. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

NO_PARAMETERS = {"type": "object", "properties": {}}
_OPENING = frozenset(  # words by which a schema takes other members than its `properties`
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "dependentSchemas"}
    | {"allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef"}
)


def without_type_null(parameters: Any) -> Any:
    """Catalogs of others write a tool without parameters as null, or as a schema of type null."""
    empty = parameters is None or (isinstance(parameters, dict) and parameters.get("type", "object") is None)
    return dict(NO_PARAMETERS) if empty else parameters


def without_arguments(parameters: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The parameters less those of these names, such as what an author has bound."""
    properties = {name: part for name, part in parameters.get("properties", {}).items() if name not in names}
    required = [name for name in parameters.get("required", ()) if name not in names]
    others = {word: value for word, value in parameters.items() if word != "required"}
    return {**others, "properties": properties, **({"required": required} if required else {})}


def closed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, which take no others than they declare unless they say so.

    Else a model could set in another way what is bound, or what an author left out.
    """
    return dict(parameters) if _OPENING & set(parameters) else {**parameters, "additionalProperties": False}
