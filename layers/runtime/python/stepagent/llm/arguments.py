"""Arguments that a model wrote: parsed, then checked against the tool's schema."""

import json
from typing import Any, NoReturn

from jsonschema import Draft202012Validator, SchemaError
from pydantic_core import from_json, to_json
from referencing import Registry
from referencing.exceptions import Unresolvable

from stepagent.agents import ToolSpec
from stepagent.errors import ConfigurationError, ToolError

_ECHO_CHARS = 300


def parse_arguments(tool: ToolSpec, text: str) -> dict[str, Any]:
    """The arguments as an object that fits the tool's schema. An empty text stands for no arguments.

    Raises:
        ToolError: they are no JSON object, or do not fit; the message shows the model what was wrong, and the schema.
        ConfigurationError: the tool's schema is none.
    """
    try:
        arguments = json.loads(text.strip() or "{}", parse_constant=_refuse_constant)
        # What the record could not hold as it is: half a surrogate pair, 1e999, hundreds of levels.
        from_json(to_json(arguments), allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        raise _unusable(tool, text, f"they are not valid JSON ({error})") from error
    if not isinstance(arguments, dict):
        raise _unusable(tool, text, "they are not a JSON object")
    if problem := _problem(tool, arguments):
        raise _unusable(tool, text, problem)
    return arguments


def _problem(tool: ToolSpec, arguments: dict[str, Any]) -> str:
    """What does not fit, or nothing."""
    try:
        Draft202012Validator.check_schema(tool.parameters)
        # A registry of its own, because the default one fetches references to other hosts.
        validator = Draft202012Validator(tool.parameters, registry=Registry())
        problem = next(validator.iter_errors(arguments), None)
    except RecursionError:
        return "they are nested too deep"
    except (SchemaError, Unresolvable) as error:
        raise ConfigurationError(f"The parameters of tool {tool.name!r} are no usable JSON Schema.") from error
    if problem is None:
        return ""
    where = problem.json_path.removeprefix("$").removeprefix(".")[:_ECHO_CHARS] or "the object"
    return f"{where}: {problem.message[:_ECHO_CHARS]}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unusable(tool: ToolSpec, text: str, why: str) -> ToolError:
    echo = text if len(text) <= _ECHO_CHARS else f"{text[:_ECHO_CHARS]}… ({len(text)} characters)"
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return ToolError(f"The arguments of {tool.name} cannot be used: {why}. You sent: {echo} The schema is: {schema}")
