"""A form of an agent, asked field by field; what does not fit a field is told at once and asked again."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, assert_never

from pydantic_core import from_json

from local.prompts import Prompts
from stepagent.errors import InvalidAnswer
from stepagent.forms import (
    BooleanField,
    DateField,
    FormField,
    MultiselectField,
    NumberField,
    SelectField,
    TextField,
    check_form,
)
from stepagent.options import Option
from stepagent.questions import FormQuestion

_YES_NO = (Option(key="yes", value="yes"), Option(key="no", value="no"))
_NONE = Option(key="-", value="(no answer)")


def ask_form(prompts: Prompts, form: FormQuestion, before: Mapping[str, Any], at_fault: str) -> dict[str, Any]:
    """The values of a form by field; where one of those before is at fault, only that is asked again."""
    values = dict(before)
    wrong = [field for field in form.fields if field.key == at_fault]
    for field in wrong or form.fields:
        value = _ask_field(prompts, field)
        values.pop(field.key, None)
        if value is not None:
            values[field.key] = value
    return values


def _ask_field(prompts: Prompts, field: FormField) -> Any:
    """A value that fits the field, None for nothing; the server has the last word on it."""
    while True:
        value = _value(prompts, field)
        try:
            check_form((field,), {} if value is None else {field.key: value})
        except InvalidAnswer as error:
            prompts.show(error.message, "red")
        else:
            return value


def _value(prompts: Prompts, field: FormField) -> Any:
    label = f"{field.name} ({terms(field)})"
    match field:
        case TextField():
            return prompts.line(label, field.default or "") or None
        case NumberField() | DateField():
            return _typed(field, prompts.line(label, "" if field.default is None else str(field.default)))
        case BooleanField():
            default = None if field.default is None else "yes" if field.default else "no"
            picked = _pick(prompts, label, _YES_NO, default, optional=not field.required)
            return None if picked is None else picked == "yes"
        case SelectField():
            return _pick(prompts, label, field.options, field.default, optional=not field.required)
        case MultiselectField():
            return prompts.pick_some(label, field.options, field.default or ())
        case _:
            assert_never(field)


def _typed(field: NumberField | DateField, text: str) -> Any:
    """A number where the text is one. Anything else goes on as it is, to be refused in words."""
    if isinstance(field, NumberField):
        with suppress(ValueError):
            return from_json(text, allow_inf_nan=False)
    return text or None


def _pick(
    prompts: Prompts, label: str, options: tuple[Option, ...], default: str | None, *, optional: bool
) -> str | None:
    if optional and default is None:
        picked = prompts.pick(label, (*options, _NONE), _NONE.key)
        return None if picked == _NONE.key else picked
    return prompts.pick(label, options, default)


def terms(field: FormField) -> str:
    """A field's type and limits in words."""
    return ", ".join([*_limits(field), "required" if field.required else "optional"])


def _limits(field: FormField) -> list[str]:
    match field:
        case TextField():
            return ["text", f"at most {field.max_length} characters"]
        case NumberField():
            return ["whole number" if field.type == "integer" else "number", *_range(field)]
        case DateField():
            return ["date as YYYY-MM-DD", *_range(field)]
        case BooleanField():
            return ["yes or no"]
        case SelectField():
            return ["one of these"]
        case MultiselectField():
            return [f"{field.min} to {min(field.max, len(field.options))} of these"]
        case _:
            assert_never(field)


def _range(field: NumberField | DateField) -> list[str]:
    least = [] if field.min is None else [f"at least {field.min}"]
    return [*least, *([] if field.max is None else [f"at most {field.max}"])]
