"""Options that a person chooses from, in a question or in a field of a form. Pure."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from stepagent.models import Frozen

MAX_OPTIONS = 100

Key = Annotated[str, Field(min_length=1, max_length=200)]


def _as_option(row: Any) -> Any:
    """A text or a number alone stands for an option that is known by what it says."""
    alone = isinstance(row, str | int | float) and not isinstance(row, bool)
    return {"key": str(row), "value": str(row)} if alone else row


class Option(Frozen):
    """One of several answers: `key` is what programs know it by, `value` what people and models read."""

    key: Key
    value: Annotated[str, Field(min_length=1, max_length=1_000)]


def _each_once(options: tuple[Option, ...]) -> tuple[Option, ...]:
    keys = [option.key for option in options]
    if twice := {key for key in keys if keys.count(key) > 1}:
        raise ValueError(f"two options have the key {', '.join(sorted(twice))}")
    return options


Options = Annotated[
    tuple[Annotated[Option, BeforeValidator(_as_option)], ...],
    Field(min_length=1, max_length=MAX_OPTIONS),
    AfterValidator(_each_once),
]


def match_option(options: Sequence[Option], given: Any) -> Option | None:
    """The option that a person means: by key, by value, or by either in other letters if only one is like it."""
    if not isinstance(given, str):
        return None
    said = given.strip()
    exact = [option for option in options if option.key == said] or [o for o in options if o.value == said]
    folded = said.casefold()
    similar = exact or [o for o in options if folded in (o.key.casefold(), o.value.casefold())]
    return similar[0] if exact or len(similar) == 1 else None
