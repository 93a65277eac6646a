"""Arguments that a model wrote: read, put into the declared types, and checked against the tool's schema."""

import json
import re
from typing import Any, NoReturn

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from stepagent.errors import ToolError
from stepagent.llm.coercion import coerced
from stepagent.llm.fragments import mended
from stepagent.llm.lenient_json import MAX_DEPTH, Incomplete, Malformed, read_whole
from stepagent.llm.lenient_scalars import finite
from stepagent.llm.schema import in_order
from stepagent.tool_specs import ToolSpec

_ECHO_CHARS = 300
_SCHEMA_CHARS = 4_000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
# What a schema is not checked for, such as a part that only a reference reaches, fails in the validator in many ways.
_BROKEN_SCHEMA = (
    SchemaError,
    Unresolvable,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    re.error,
)


def parse_arguments(tool: ToolSpec, text: str) -> dict[str, Any]:
    """The arguments as an object that fits the tool's schema. An empty text stands for no arguments, and so does null.

    Raises:
        ToolError: they are no JSON object, or do not fit; the message shows the model what was wrong, and the schema.
            Or the tool's schema is none.
    """
    try:
        written = _read(text)
        if isinstance(written, str):  # some models encode the whole object twice
            written = _read_object_in(written)
    except Incomplete as error:
        raise _unusable(tool, text, f"they are cut off and so not valid JSON ({error})") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(tool, text, f"they are not valid JSON ({error})") from error
    if written is None:
        written = {}
    if not isinstance(written, dict):
        raise _unusable(tool, text, "they are not a JSON object")
    return _fitting(tool, text, written)


def replay_text(text: str, arguments: dict[str, Any]) -> str:
    """The arguments as the model wrote them where that is a JSON object for every reader, else written anew."""
    try:
        as_written = isinstance(_strict(text), dict)
    except (ValueError, RecursionError):
        as_written = False
    return text if as_written else json.dumps(arguments, ensure_ascii=False)


def _read(text: str) -> Any:
    if not text.strip("\ufeff \t\r\n"):
        return {}
    try:
        return _strict(text)
    except (ValueError, RecursionError):
        return read_whole(text)


def _read_object_in(text: str) -> Any:
    """The object that the text holds, or the text."""
    try:
        value = _read(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _strict(text: str) -> Any:
    """The value of a text that every reader of JSON takes, and takes for the same."""
    if _SURROGATE.search(text):
        raise Malformed("it holds half characters")
    return json.loads(text, object_pairs_hook=_members, parse_float=finite, parse_constant=_refuse_constant)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise Malformed("a key stands twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is not JSON")


def _fitting(tool: ToolSpec, text: str, written: dict[str, Any]) -> dict[str, Any]:
    """The arguments in the declared types, checked."""
    try:
        validator = _validator(tool.parameters)
        arguments = coerced(written, validator)
        problem = "they are nested too deep" if _depth(arguments) > MAX_DEPTH else _problem(validator, arguments)
    except RecursionError as error:
        raise _unusable(tool, text, "they are nested too deep") from error
    except _BROKEN_SCHEMA as error:
        why = "its own parameters are no usable JSON Schema, which no other arguments can mend"
        raise ToolError(f"The tool {tool.name!r} cannot be called: {why}.") from error
    if problem:
        raise _unusable(tool, text, problem)
    return dict(arguments)


def _validator(parameters: dict[str, Any]) -> Validator:
    schema = in_order(parameters)
    Draft202012Validator.check_schema(schema)
    # A registry of its own, because the default one fetches references to other hosts.
    return Draft202012Validator(schema, registry=Registry())


def _problem(validator: Validator, arguments: dict[str, Any]) -> str:
    """What does not fit, or nothing."""
    problem = next(iter(validator.iter_errors(arguments)), None)
    if problem is None:
        return ""
    where = problem.json_path.removeprefix("$").removeprefix(".")[:_ECHO_CHARS] or "the object"
    return f"{where}: {problem.message[:_ECHO_CHARS]}"


def _depth(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(_depth, parts), default=0)


def _unusable(tool: ToolSpec, text: str, why: str) -> ToolError:
    schema = json.dumps(tool.parameters, ensure_ascii=False, default=str)
    echo, shape = _cut(text, _ECHO_CHARS), _cut(schema, _SCHEMA_CHARS)
    message = f"The arguments of {tool.name} cannot be used: {why}. You sent: {echo} The schema is: {shape}"
    return ToolError(mended(message))


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text)} characters)"
