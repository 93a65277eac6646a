"""JSON Schemas that strangers send: refused where they cannot be followed, and followed within bounds.

A schema of a few lines can keep a function busy for longer than it lives: by a pattern that is tried in ever more ways,
by references that double at each step, by a list of which each item is compared with all others. So patterns are
matched in linear time, as Rust's engine does it, which has no look-around; and what is done to check is counted.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema

from stepagent.schemas import schema_flaw

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MAX_CHARS = 64_000
_MOST_STEPS = 50_000  # a second or so; an answer of a few pages takes some thousand
_ITEMS_A_STEP = 32  # of a list or an object that one word of a schema goes through
_CHARS_A_STEP = 4_096
_SHOWN_CHARS = 80
_WHY_CHARS = 500
_DIALECT = "$schema"
# These look at a value again and again on ways of their own, or change what a reference means.
_NOT_TAKEN = ("$id", "$dynamicRef", "$dynamicAnchor", "patternProperties", "unevaluatedItems", "unevaluatedProperties")

_Word = Callable[..., Any]  # what checks one word of a schema, as jsonschema has it
_steps_left: ContextVar[int] = ContextVar("steps_left")


class CannotFollow(ValueError):
    """A schema cannot be followed to its end; the message says why."""


def untrusted_schema_flaw(schema: Mapping[str, Any]) -> str | None:
    """Why a schema is not taken, as half a sentence; None where it is. Each schema is looked at once a process."""
    text = json.dumps(schema)
    if len(text) > _MAX_CHARS:
        return f"the schema has more than {_MAX_CHARS} characters"
    return _flaw(text)


def untrusted_misfit(value: Any, schema: Mapping[str, Any]) -> str | None:
    """What says best why a value does not fit; None where it does.

    Raises:
        CannotFollow: the schema leads nowhere, or to more than a check may do.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    if flaw := untrusted_schema_flaw(schema):  # one of the record may be older than a rule
        raise CannotFollow(f"its schema cannot be followed: {flaw}")
    rules = {word: rule for word, rule in schema.items() if word != _DIALECT}  # else parts would get another validator
    counted = _steps_left.set(_MOST_STEPS)
    try:  # an empty registry: what a schema refers to elsewhere is not fetched
        problem = best_match(_bounded_validator()(rules, registry=Registry()).iter_errors(value))
    except CannotFollow:
        raise
    except Exception as error:  # a schema that is none in a part that only a reference reaches fails in many ways
        raise CannotFollow(f"its schema cannot be followed ({type(error).__name__})") from error
    finally:
        _steps_left.reset(counted)
    return None if problem is None else f"{problem.json_path[:_WHY_CHARS]}: {problem.message[:_WHY_CHARS]}"


@lru_cache(maxsize=64)
def _flaw(schema_text: str) -> str | None:
    schema: dict[str, Any] = json.loads(schema_text)
    try:
        if flaw := schema_flaw(schema):
            where = ".".join(flaw.path)[:_SHOWN_CHARS]
            return f"it is not a JSON Schema: {where + ': ' if where else ''}{flaw.message}"
        return next(_unfit_words(schema), None) or next(_unfit_patterns(schema), None) or _lost_reference(schema)
    except RecursionError:
        return "it is nested too deep"


def _unfit_words(schema: Mapping[str, Any]) -> Iterator[str]:
    for part in _objects(schema):
        yield from (f"{word!r} is not supported in it" for word in _NOT_TAKEN if word in part and _is_word(part, word))
        if _DIALECT in part and part is not schema and _is_word(part, _DIALECT):
            yield f"{_DIALECT!r} may stand at its top only"


def _is_word(part: Mapping[str, Any], name: str) -> bool:
    """Whether a name is a word of a schema there: a member of the answer that is called `$id` has a schema."""
    return isinstance(part[name], str) or not name.startswith("$")


def _unfit_patterns(schema: Mapping[str, Any]) -> Iterator[str]:
    for part in _objects(schema):
        pattern = part.get("pattern")
        if isinstance(pattern, str) and _matcher(pattern) is None:
            yield f"the pattern {pattern[:_SHOWN_CHARS]!r} is too large, or looks around, which is not supported"


def _lost_reference(schema: Mapping[str, Any]) -> str | None:
    from referencing import Registry  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    rules = {word: rule for word, rule in schema.items() if word != _DIALECT}
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(rules))
    for reference in {part["$ref"] for part in _objects(schema) if isinstance(part.get("$ref"), str)}:
        try:
            found = resolver.lookup(reference).contents
        except Exception:  # as many as there are ways to write what is no reference
            found = None
        if not isinstance(found, dict | bool):
            return f"its reference {reference[:_SHOWN_CHARS]!r} leads to no schema in it"
    return None


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema, whether or not it is a schema: a reference may lead to any."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator | None:
    """What finds a pattern in a text; None where that cannot be done in linear time."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except PatternError:
        return None


@cache
def _bounded_validator() -> type["Validator"]:
    """jsonschema's validator, with each word counted."""
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415

    words = Draft202012Validator.VALIDATORS | {"pattern": _pattern, "uniqueItems": _unique_items}
    extend: Any = validators.extend  # jsonschema types it not
    bounded: type[Validator] = extend(Draft202012Validator, {word: _counted(check) for word, check in words.items()})
    return bounded


def _counted(check: _Word) -> _Word:
    def counted(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        left = _steps_left.get() - 1 - _size(rule) - _size(value)
        if left < 0:
            raise CannotFollow("its schema asks for too much work")
        _steps_left.set(left)
        yield from check(validator, rule, value, schema) or ()

    return counted


def _size(value: Any) -> int:
    """Of what one word looks at, in steps."""
    if isinstance(value, list | dict):
        return len(value) // _ITEMS_A_STEP
    return len(value) // _CHARS_A_STEP if isinstance(value, str) else 0


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError  # noqa: PLC0415

    matcher = _matcher(pattern)
    assert matcher  # a schema with any other pattern is not taken
    if isinstance(value, str) and not matcher.isinstance_python(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _unique_items(validator: Any, unique: bool, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError  # noqa: PLC0415

    if unique and isinstance(value, list) and len(set(map(_canonical, value))) < len(value):
        yield ValidationError("it has an item twice")


def _canonical(value: Any) -> Any:
    """Equal for values that JSON Schema takes for equal: 1 and 1.0, but not 1 and true."""
    match value:
        case bool():
            return bool, value
        case dict():
            return dict, frozenset((name, _canonical(inner)) for name, inner in value.items())
        case list():
            return list, tuple(map(_canonical, value))
        case _:
            return value
