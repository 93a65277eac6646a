"""JSON Schemas that others wrote: whether they are some, and what fits them. Nothing that they refer to is fetched.

The checker is imported where it is used: that takes longer than all else together, and most functions check nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MESSAGE_CHARS = 200


class SchemaFlaw(NamedTuple):
    """Why a schema is none: where in it, and what is wrong there."""

    path: tuple[str, ...]
    message: str


def schema_flaw(schema: Any) -> SchemaFlaw | None:
    """What is wrong with a schema; None where it is one."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return SchemaFlaw(tuple(map(str, error.absolute_path)), error.message[:_MESSAGE_CHARS])
    except RecursionError:
        return SchemaFlaw((), "it is nested too deep")
    return None


def misfit(value: Any, schema: Mapping[str, Any]) -> "ValidationError | None":
    """What says best why a value does not fit; None where it does."""
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    problem: ValidationError | None = best_match(validator_of(schema).iter_errors(value))
    return problem


def validator_of(schema: Mapping[str, Any]) -> "Validator":
    """What checks values against a schema."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    # A registry of its own, because the default one fetches references to other hosts.
    return Draft202012Validator(dict(schema), registry=Registry())
