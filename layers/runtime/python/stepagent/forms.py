"""The fields of a form as an author describes them, and whether what a person gave fits them. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import AfterValidator, Field, StrictFloat, StrictInt, model_validator

from stepagent.errors import InvalidAnswer
from stepagent.models import Frozen
from stepagent.options import MAX_OPTIONS, Key, Option, Options, match_option

MAX_TEXT_CHARS = 20_000

Number = StrictInt | StrictFloat


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


class _Field(Frozen):
    key: Key
    label: str = ""
    required: bool = False

    @property
    def name(self) -> str:
        return self.label or self.key


class TextField(_Field):
    """A text; `pattern` is a regular expression that all of it must match."""

    type: Literal["text"]
    default: str | None = None
    max_length: int = Field(MAX_TEXT_CHARS, ge=1, le=MAX_TEXT_CHARS)
    pattern: Annotated[str, AfterValidator(_compiles)] | None = None


class NumberField(_Field):
    type: Literal["number", "integer"]
    default: Number | None = None
    min: Number | None = None
    max: Number | None = None


class BooleanField(_Field):
    type: Literal["boolean"]
    default: bool | None = None


class DateField(_Field):
    """A day, as YYYY-MM-DD."""

    type: Literal["date"]
    default: date | None = None
    min: date | None = None
    max: date | None = None


class SelectField(_Field):
    type: Literal["select"]
    options: Options
    default: str | None = None


class MultiselectField(_Field):
    """Any number of options; `min` and `max` bound how many."""

    type: Literal["multiselect"]
    options: Options
    default: tuple[str, ...] | None = None
    min: int = Field(0, ge=0)
    max: int = Field(MAX_OPTIONS, ge=1)


FormField = Annotated[
    TextField | NumberField | BooleanField | DateField | SelectField | MultiselectField, Field(discriminator="type")
]


class Form(Frozen):
    """The fields of a form, in order. Each default fits its own field."""

    fields: Annotated[tuple[FormField, ...], Field(min_length=1, max_length=50)]

    @model_validator(mode="after")
    def _can_be_filled_in(self) -> Self:
        keys = [field.key for field in self.fields]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"two fields have the key {', '.join(sorted(twice))}")
        for field in self.fields:
            try:
                _default_of(field)
            except ValueError as error:
                raise ValueError(f"the default of {field.key} {error}") from error
        return self


def check_form(fields: Sequence[FormField], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are kept: each fits its field, what was not given has its default or is left out.

    Raises:
        InvalidAnswer: a value does not fit, is missing, or belongs to no field; `param` names the field.
    """
    keys = [field.key for field in fields]
    if unknown := next((key for key in given if key not in keys), None):
        raise InvalidAnswer(f"There is no field {unknown[:200]!r}; there are: {', '.join(keys)}.", f"answer.{unknown}")
    values: dict[str, Any] = {}
    for field in fields:
        try:
            value = _value_of(field, given.get(field.key))
        except ValueError as error:
            raise InvalidAnswer(f"{field.name} {error}.", f"answer.{field.key}") from error
        if value is not None:
            values[field.key] = value
    return values


def _value_of(field: FormField, given: Any) -> Any:
    """What is kept of a field, None for nothing. Blank means not given, as pages send it.

    Raises:
        ValueError: it does not fit; the message is the rest of a sentence about the field.
    """
    if given is not None and not (isinstance(given, str) and not given.strip()):
        return _fitting(field, given)
    default = _default_of(field)
    if default is None and field.required:
        raise ValueError("is required")
    return default


def _default_of(field: FormField) -> Any:
    if field.default is None:
        return None
    return _fitting(field, field.default.isoformat() if isinstance(field.default, date) else field.default)


def _fitting(field: FormField, given: Any) -> Any:
    match field:
        case TextField():
            return _text(field, given)
        case NumberField():
            return _number(field, given)
        case BooleanField():
            if not isinstance(given, bool):
                raise ValueError("must be true or false")
            return given
        case DateField():
            return _date(field, given)
        case SelectField():
            return _option(field.options, given)
        case MultiselectField():
            return _options(field, given)
        case _:
            assert_never(field)


def _text(field: TextField, given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("must be a text")
    if len(given) > field.max_length:
        raise ValueError(f"has more than {field.max_length} characters")
    if field.pattern is not None and not re.fullmatch(field.pattern, given):
        raise ValueError(f"does not match {field.pattern}")
    return given


def _number(field: NumberField, given: Any) -> int | float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
    if field.type == "integer" and (not is_number or given != int(given)):
        raise ValueError("must be a whole number")
    if not is_number:
        raise ValueError("must be a number")
    value = int(given) if field.type == "integer" else given
    _check_range(value, field.min, field.max)
    return value


def _date(field: DateField, given: Any) -> str:
    try:
        if not isinstance(given, str) or len(given) != len("YYYY-MM-DD"):  # other forms of ISO 8601 are not taken
            raise ValueError
        day = date.fromisoformat(given)
    except ValueError:
        raise ValueError("must be a date, as YYYY-MM-DD") from None
    _check_range(day, field.min, field.max)
    return day.isoformat()


def _check_range(value: Any, least: Any, most: Any) -> None:
    if least is not None and value < least:
        raise ValueError(f"must be at least {least}")
    if most is not None and value > most:
        raise ValueError(f"must be at most {most}")


def _option(options: Sequence[Option], given: Any) -> str:
    """The key of the option that is meant."""
    found = match_option(options, given)
    if found is None:
        raise ValueError(f"must be one of: {', '.join(option.key for option in options)}")
    return found.key


def _options(field: MultiselectField, given: Any) -> list[str]:
    """The keys of the options that are meant, each once, in the order of the form."""
    if not isinstance(given, list | tuple):
        raise ValueError(f"must be a list of: {', '.join(option.key for option in field.options)}")
    meant = {_option(field.options, each) for each in given}
    if not field.min <= len(meant) <= field.max:
        raise ValueError(f"takes between {field.min} and {field.max} options")
    return [option.key for option in field.options if option.key in meant]
