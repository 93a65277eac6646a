"""A typed function's signature as a tool's arguments: their JSON Schema, and values of the function's types.

The names that a model uses are the parameters' own; the pydantic model behind them has neutral ones, so that a
parameter may be called `schema`, `json` or `_id` like any other.
"""

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, NamedTuple, NoReturn, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_json

from stepagent.llm.schema_parts import Schema, with_parts, without
from stepagent.tools.context import ToolContext

Function = Callable[..., Any]

_CONFIG = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64")
_NOISE = ("title", "discriminator")  # the latter is OpenAPI's word, not JSON Schema's


class Signature(NamedTuple):
    """How a function takes a tool's arguments.

    `parameters` is their JSON Schema; `fields` gives the field of `model` for each of them; `injected` are the
    function's parameters that take the `ToolContext`; `positional` are those that a caller cannot name, in order.
    """

    parameters: Schema
    model: type[BaseModel]
    fields: Mapping[str, str]
    injected: tuple[str, ...]
    positional: tuple[str, ...]

    def bind(self, arguments: Mapping[str, Any], context: ToolContext | None) -> tuple[list[Any], dict[str, Any]]:
        """What to call the function with: JSON values become values of its types, absent ones have their defaults.

        Raises:
            ValidationError: they do not fit.
        """
        read = self.model.model_validate_json(to_json(dict(arguments)))
        values = {name: getattr(read, field) for name, field in self.fields.items()}
        values |= dict.fromkeys(self.injected, context)
        return [values.pop(name) for name in self.positional], values


def read_signature(function: Function, described: Mapping[str, str]) -> Signature:
    """Reads the signature of a function that shall be a tool.

    Args:
        function: the function.
        described: what its docstring says of its parameters, for those of which their types say nothing.

    Raises:
        TypeError: a parameter has no type, or none that JSON can express; the message names function and parameter.
    """
    parameters = inspect.signature(function).parameters
    types = {name: _type_of(function, parameter) for name, parameter in parameters.items()}
    injected = tuple(name for name, hint in types.items() if _takes_context(hint))
    asked = [name for name in parameters if name not in injected]
    definitions = {name: _definition(parameters[name], types[name]) for name in asked}
    model, schema = _build(function, definitions)
    for name, words in described.items():
        if name in schema["properties"]:
            schema["properties"][name].setdefault("description", words)
    positional = tuple(name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_ONLY)
    return Signature(schema, model, _field_names(asked), injected, positional)


def _type_of(function: Function, parameter: inspect.Parameter) -> Any:
    name, annotation = parameter.name, parameter.annotation
    match parameter.kind:
        case parameter.VAR_POSITIONAL:
            _refuse(function, f"*{name}", "takes any number of values; make it one list")
        case parameter.VAR_KEYWORD:
            _refuse(function, f"**{name}", "takes arguments of any name; make it one dict, or name each")
    if annotation is parameter.empty:
        _refuse(function, name, "has no type; write for example `str`, or `Any` if it takes anything")

    def annotated() -> None: ...

    annotated.__annotations__ = {name: annotation}
    try:
        names = getattr(inspect.unwrap(function), "__globals__", {})
        return get_type_hints(annotated, names, include_extras=True)[name]
    except Exception as error:  # the annotation is any expression
        _refuse(function, name, f"has a type that cannot be found: {error}", error)


def _takes_context(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, UnionType):
        return any(map(_takes_context, get_args(hint)))
    return hint is ToolContext


def _definition(parameter: inspect.Parameter, hint: Any) -> Any:
    """The field of a pydantic model that stands for a parameter."""
    name = parameter.name
    typed: Any = Annotated[hint, Field(alias=name, validation_alias=name, serialization_alias=name)]
    return typed if parameter.default is parameter.empty else (typed, parameter.default)


def _build(function: Function, definitions: Mapping[str, Any]) -> tuple[type[BaseModel], Schema]:
    """The model of all parameters and its schema."""
    try:
        return _model_and_schema(definitions)
    except Exception as error:  # pydantic refuses types, and combinations of them, in many ways
        for name, definition in definitions.items():
            _try_alone(function, name, definition)
        _refuse(function, ", ".join(definitions), str(error), error)


def _try_alone(function: Function, name: str, definition: Any) -> None:
    try:
        _model_and_schema({name: definition})
    except Exception as error:
        _refuse(function, name, f"has a type that no argument can have: {str(error).partition(chr(10))[0]}", error)


def _model_and_schema(definitions: Mapping[str, Any]) -> tuple[type[BaseModel], Schema]:
    names = _field_names(definitions)
    fields = {names[name]: definition for name, definition in definitions.items()}
    model = create_model("Arguments", __config__=_CONFIG, **fields)
    return model, _without_noise(model.model_json_schema(schema_generator=_Generator))


def _field_names(names: Mapping[str, Any] | list[str]) -> dict[str, str]:
    return {name: f"field_{number}" for number, name in enumerate(names)}


def _without_noise(schema: Schema) -> Schema:
    return with_parts(without(schema, *_NOISE), lambda part: _without_noise(part) if isinstance(part, dict) else part)


def _refuse(function: Function, parameter: str, why: str, cause: Exception | None = None) -> NoReturn:
    raise TypeError(f"The tool {function.__qualname__} cannot be made: its parameter {parameter} {why}.") from cause


class _Generator(GenerateJsonSchema):
    """pydantic's, in the order in which things are written, silent on defaults without a JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 (as the base has it)

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """Its pattern looks ahead, which servers that make grammars of schemas do not take; it is checked when read."""
        plain = super().decimal_schema(schema)
        return {**plain, "anyOf": [without(each, "pattern") for each in plain["anyOf"]]} if "anyOf" in plain else plain
