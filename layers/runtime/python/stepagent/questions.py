"""What a person is asked: how a tool's row and a call's arguments come to a question, and its words. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, assert_never

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from stepagent.errors import ToolError
from stepagent.forms import (
    BooleanField,
    DateField,
    Form,
    FormField,
    MultiselectField,
    NumberField,
    SelectField,
    TextField,
)
from stepagent.models import Frozen, problems
from stepagent.options import Option, Options
from stepagent.planning.plan import Plan, StepStatus, in_lines

MAX_DESCRIPTION_CHARS = 8_000  # the call's arguments keep all of it
_SHOWN_CHARS = 2_000  # of the arguments, in the words of an approval
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")
_ASKED = "{{question}}"


# ---- what a tool's row says


class _Spec(Frozen):
    """`{{name}}` in a description stands for that argument of the call."""

    description: str

    @property
    def arguments(self) -> set[str]:
        """The arguments that it is made of."""
        return set(_PLACEHOLDER.findall(self.description))


class TextSpec(_Spec):
    """A question that is answered in the person's own words."""

    type: Literal["text"]
    description: str = _ASKED


class ChoiceSpec(_Spec):
    """A question with options: the author's `options`, or the model's, in the argument that `options_from` names."""

    type: Literal["choice"]
    description: str = _ASKED
    options: Options | None = None
    options_from: str | None = None

    @model_validator(mode="after")
    def _has_options(self) -> Self:
        if (self.options is None) == (self.options_from is None):
            raise ValueError("a choice has either options or options_from")
        return self

    @property
    def arguments(self) -> set[str]:
        return super().arguments | ({self.options_from} if self.options_from else set())


class FormSpec(_Spec, Form):
    """Several fields, filled in at once."""

    type: Literal["form"]


QuestionSpec = Annotated[TextSpec | ChoiceSpec | FormSpec, Field(discriminator="type")]

# Rows without the field: the model asks in its own words, and may offer options.
_PLAIN = TextSpec(type="text")
_PLAIN_CHOICE = ChoiceSpec(type="choice", options_from="options")


# ---- what a person is shown


class TextQuestion(Frozen):
    type: Literal["text"] = "text"
    description: str


class ChoiceQuestion(Frozen):
    type: Literal["choice"] = "choice"
    description: str
    options: Options


class FormQuestion(Form):
    type: Literal["form"] = "form"
    description: str


class ApprovalQuestion(Frozen):
    """Whether a call may run. `arguments` are the model's, `bound` the author's, which win; `digest` is of both."""

    type: Literal["approval"] = "approval"
    description: str
    arguments: dict[str, Any]
    bound: dict[str, Any]
    digest: str


class PlanQuestion(Frozen):
    """Whether a plan may be carried out. What is still open of it may be changed, within so many steps in all."""

    type: Literal["plan"] = "plan"
    description: str
    plan: Plan
    max_steps: int


Question = Annotated[
    TextQuestion | ChoiceQuestion | FormQuestion | ApprovalQuestion | PlanQuestion, Field(discriminator="type")
]
_options: TypeAdapter[tuple[Option, ...]] = TypeAdapter(Options)


def make_question(spec: QuestionSpec | None, arguments: Mapping[str, Any]) -> Question:
    """The question that a call of an interactive tool asks. What arguments bring is text and never read again.

    Raises:
        ToolError: the options that the model gave are none.
    """
    asked = spec or (_PLAIN_CHOICE if _offers(arguments) else _PLAIN)
    description = _filled(asked.description, arguments)
    match asked:
        case TextSpec():
            return TextQuestion(description=description)
        case ChoiceSpec():
            options = asked.options or _read_options(asked.options_from, arguments)
            return ChoiceQuestion(description=description, options=options)
        case FormSpec():
            return FormQuestion(description=description, fields=asked.fields)
        case _:
            assert_never(asked)


def ask_approval(tool: str, arguments: dict[str, Any], bound: dict[str, Any], digest: str) -> ApprovalQuestion:
    return ApprovalQuestion(description=f"May {tool} run?", arguments=arguments, bound=bound, digest=digest)


def ask_plan(arguments: Mapping[str, Any], max_steps: int) -> PlanQuestion:
    plan = Plan.model_validate(arguments["plan"])
    return PlanQuestion(description="May this plan be carried out?", plan=plan, max_steps=max_steps)


def in_words(question: Question) -> str:
    """The question as a chat shows it: with what there is to choose or to fill in, and how to answer."""
    return "\n".join(_lines(question))


def _offers(arguments: Mapping[str, Any]) -> bool:
    options = arguments.get("options")
    return isinstance(options, list) and bool(options)


def _filled(description: str, arguments: Mapping[str, Any]) -> str:
    def text_of(placeholder: re.Match[str]) -> str:
        value = arguments.get(placeholder[1], "")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _PLACEHOLDER.sub(text_of, description)[:MAX_DESCRIPTION_CHARS]


def _read_options(name: str | None, arguments: Mapping[str, Any]) -> tuple[Option, ...]:
    given = arguments.get(name or "")
    try:
        return _options.validate_python(_without_repeats(given) if isinstance(given, list) else given)
    except ValidationError as error:
        wanted = f"{name} must be a list of texts, or of objects with key and value"
        raise ToolError(f"The person was not asked: {wanted} ({problems(error)}).") from error


def _without_repeats(options: list[Any]) -> list[Any]:
    return [option for index, option in enumerate(options) if option not in options[:index]]


def _lines(question: Question) -> Iterator[str]:
    match question:
        case TextQuestion():
            yield question.description
        case ChoiceQuestion():
            yield question.description
            yield from (f"- {_option_in_words(option)}" for option in question.options)
        case FormQuestion():
            yield question.description
            yield from (f"- {field.key}: {_field_in_words(field)}" for field in question.fields)
            yield "Answer with a JSON object of these fields."
        case ApprovalQuestion():
            yield f"{question.description} {_shown(question.arguments)}"
            if question.bound:
                yield f"Set by the agent's author: {_shown(question.bound)}"
            yield "Answer approve, or reject and why."
        case PlanQuestion():
            yield question.description
            yield from in_lines(question.plan.having(StepStatus.PENDING))
            yield "Answer approve, or reject and why."
        case _:
            assert_never(question)


def _option_in_words(option: Option) -> str:
    return option.value if option.key == option.value else f"{option.key}: {option.value}"


def _field_in_words(field: FormField) -> str:
    terms = [_kind_in_words(field), "required" if field.required else ""]
    return f"{field.name} ({', '.join(filter(None, terms))})"


def _kind_in_words(field: FormField) -> str:
    match field:
        case TextField():
            return "text"
        case NumberField():
            return f"{'whole number' if field.type == 'integer' else 'number'}{_range(field)}"
        case BooleanField():
            return "true or false"
        case DateField():
            return f"date as YYYY-MM-DD{_range(field)}"
        case SelectField():
            return f"one of {', '.join(map(_option_in_words, field.options))}"
        case MultiselectField():
            return f"a list of {', '.join(map(_option_in_words, field.options))}"
        case _:
            assert_never(field)


def _range(field: NumberField | DateField) -> str:
    least = "" if field.min is None else f", at least {field.min}"
    return least if field.max is None else f"{least}, at most {field.max}"


def _shown(arguments: dict[str, Any]) -> str:
    text = json.dumps(arguments, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
