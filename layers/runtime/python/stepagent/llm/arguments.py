"""Arguments that a model wrote: parsed, then checked against the tool's schema."""

import json
from typing import Any, NoReturn

from jsonschema import Draft202012Validator

from stepagent.agents import ToolSpec
from stepagent.errors import ToolError

_ECHO_CHARS = 300


def parse_arguments(tool: ToolSpec, text: str) -> dict[str, Any]:
    """The arguments as an object that fits the tool's schema. An empty text stands for no arguments.

    Raises:
        ToolError: they are no JSON object, or do not fit; the message shows the model what was wrong, and the schema.
    """
    try:
        arguments = json.loads(text.strip() or "{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _unusable(tool, text, f"they are not valid JSON ({error})") from error
    if not isinstance(arguments, dict):
        raise _unusable(tool, text, "they are not a JSON object")
    problem = next(Draft202012Validator(tool.parameters).iter_errors(arguments), None)
    if problem:
        where = problem.json_path.removeprefix("$").removeprefix(".") or "the object"
        raise _unusable(tool, text, f"{where}: {problem.message[:_ECHO_CHARS]}")
    return arguments


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unusable(tool: ToolSpec, text: str, why: str) -> ToolError:
    echo = text if len(text) <= _ECHO_CHARS else f"{text[:_ECHO_CHARS]}… ({len(text)} characters)"
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return ToolError(f"The arguments of {tool.name} cannot be used: {why}. You sent: {echo} The schema is: {schema}")
