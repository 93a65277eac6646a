"""What a person answers: whether it fits the question, in which one form it is kept, and what the model reads. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, assert_never

from pydantic import Field, ValidationError
from pydantic_core import from_json

from stepagent.errors import InvalidAnswer
from stepagent.forms import MAX_TEXT_CHARS, FormField, MultiselectField, SelectField, check_form
from stepagent.models import Frozen
from stepagent.options import Option, match_option
from stepagent.planning.plan import PlanFlaw, PlannedStep
from stepagent.planning.revising import replaced
from stepagent.questions import (
    ApprovalQuestion,
    ChoiceQuestion,
    FormQuestion,
    PlanQuestion,
    Question,
    TextQuestion,
)
from stepagent.schemas import misfit

Answer = str | dict[str, Any]
_DECISIONS = {"approve": "approve", "yes": "approve", "reject": "reject", "no": "reject"}
_SAID = re.compile(r"(\w+)\s*(?:[:,;.!\n-]\s*(.*))?", re.DOTALL)  # one word, and what follows a mark behind it
_MAX_REASON_CHARS = 2_000
_MAX_RULE_CHARS = 300
_PARAM = "answer"


class _DecidedAnswer(Frozen):
    decision: Literal["approve", "edit", "reject"]
    reason: Annotated[str, Field(max_length=_MAX_REASON_CHARS)] = ""


class ApprovalAnswer(_DecidedAnswer):
    """What a person decides of a call. With a `digest` the answer counts for the arguments that have it, only."""

    arguments: dict[str, Any] | None = None
    digest: str | None = None


class PlanAnswer(_DecidedAnswer):
    """What a person decides of a plan; edited, these are its steps in place of those that are still open."""

    steps: tuple[PlannedStep, ...] | None = None


Decided = TypeVar("Decided", bound=_DecidedAnswer)


def check_answer(question: Question, given: Answer, parameters: Mapping[str, Any] | None = None) -> Answer:
    """The answer in the one form in which it is kept, so that the same answer is known again.

    A text is kept without outer blanks, a choice as the option's key, a form as its values by field, what is decided of
    a call or a plan as an object with `decision`. Where an object is asked for, a text that holds it does as well: so
    people answer in a chat.

    Args:
        question: what was asked.
        given: what the person said.
        parameters: the JSON Schema of the tool's arguments, for approvals.

    Raises:
        InvalidAnswer: it does not fit; `param` names the field.
    """
    match question:
        case TextQuestion():
            return _text(given)
        case ChoiceQuestion():
            return _choice(question, given)
        case FormQuestion():
            return check_form(question.fields, given if isinstance(given, dict) else _object_in(given))
        case ApprovalQuestion():
            return _approval(question, given, parameters or {})
        case PlanQuestion():
            return _confirmation(question, given)
        case _:
            assert_never(question)


def text_for_model(question: Question, answer: Answer) -> tuple[str, bool]:
    """The text that the model reads as the result of its call, and whether it is an error."""
    match question:
        case TextQuestion():
            return str(answer), False
        case ChoiceQuestion():
            option = _option(question.options, str(answer))
            return option.value if option.key == option.value else f"{option.value} (key: {option.key})", False
        case FormQuestion():
            assert isinstance(answer, dict)
            return json.dumps(_with_labels(question, answer), ensure_ascii=False), False
        case ApprovalQuestion():
            assert isinstance(answer, dict)
            reason = f" The reason: {answer['reason']}" if answer.get("reason") else ""
            return f"Not run: a person rejected this call.{reason}", True
        case PlanQuestion():
            return json.dumps(answer, ensure_ascii=False), False
        case _:
            assert_never(question)


def lets_run(question: Question, answer: Answer | None) -> bool:
    """Whether the answer lets a call run that waited for a person's approval."""
    return isinstance(question, ApprovalQuestion) and isinstance(answer, dict) and answer["decision"] != "reject"


def _text(given: Answer) -> str:
    if not isinstance(given, str):
        raise InvalidAnswer("This question is answered with a text.", _PARAM)
    text = given.strip()
    if not text or len(text) > MAX_TEXT_CHARS:
        raise InvalidAnswer(f"An answer has between 1 and {MAX_TEXT_CHARS} characters.", _PARAM)
    return text


def _choice(question: ChoiceQuestion, given: Answer) -> str:
    option = match_option(question.options, given)
    if option is None:
        keys = ", ".join(option.key for option in question.options)
        raise InvalidAnswer(f"The answer is one of: {keys}.", _PARAM)
    return option.key


def _object_in(given: Answer) -> dict[str, Any]:
    try:
        value = from_json(given, allow_inf_nan=False) if isinstance(given, str) else given
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidAnswer("The answer is a JSON object with a value for each field.", _PARAM)
    return value


def _approval(question: ApprovalQuestion, given: Answer, parameters: Mapping[str, Any]) -> dict[str, Any]:
    decided = _decision(given, ApprovalAnswer)
    if decided.digest not in (None, question.digest):
        raise InvalidAnswer("The call has other arguments than those that were approved.", f"{_PARAM}.digest")
    match decided.decision:
        case "approve":
            return {"decision": "approve"}
        case "reject":
            return {"decision": "reject", "reason": decided.reason.strip()}
        case "edit":
            edited = _edited(question, decided.arguments, parameters)
            unchanged = edited == question.arguments
            return {"decision": "approve"} if unchanged else {"decision": "edit", "arguments": edited}
        case _:
            assert_never(decided.decision)


def _confirmation(question: PlanQuestion, given: Answer) -> dict[str, Any]:
    decided = _decision(given, PlanAnswer)
    match decided.decision:
        case "approve":
            return {"decision": "approve"}
        case "reject":
            return {"decision": "reject", "reason": decided.reason.strip()}
        case "edit":
            steps = decided.steps or ()
            try:
                replaced(question.plan, steps, question.max_steps)
            except PlanFlaw as flaw:
                param = ".".join(map(str, (_PARAM, *flaw.path)))
                raise InvalidAnswer(f"{param}: {flaw}.", param) from flaw
            return {"decision": "edit", "steps": [step.model_dump(mode="json") for step in steps]}
        case _:
            assert_never(decided.decision)


def _decision(given: Answer, kind: type[Decided]) -> Decided:
    """The decision that an object or its text states, or plain words, such as `reject: not today`."""
    if isinstance(given, str) and not given.strip().startswith("{"):
        said = _SAID.fullmatch(given.strip())
        word, reason = said.groups("") if said else ("", "")
        decision = _DECISIONS.get(word.casefold())
        if decision is None or (decision == "approve" and reason):  # an approval with an if is none
            raise InvalidAnswer("Answer approve, or reject and why, such as reject: not today.", _PARAM)
        given = {"decision": decision, "reason": reason}
    try:
        return kind.model_validate(_object_in(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(map(str, (_PARAM, *first["loc"])))
        raise InvalidAnswer(f"{param}: {first['msg']}.", param) from error


def _edited(
    question: ApprovalQuestion, arguments: dict[str, Any] | None, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """New arguments in place of the model's, which fit the tool as those had to."""
    param = f"{_PARAM}.arguments"
    if arguments is None:
        raise InvalidAnswer("To edit a call, give all its arguments.", param)
    if bound := next((name for name in arguments if name in question.bound), None):
        raise InvalidAnswer(f"{bound} is set by the agent's author.", f"{param}.{bound}")
    try:
        json.dumps(arguments, allow_nan=False)  # such as 1e999
    except ValueError as error:
        raise InvalidAnswer("The arguments hold a number that is none.", param) from error
    _check_arguments(arguments, parameters, param)
    return arguments


def _check_arguments(arguments: Mapping[str, Any], parameters: Mapping[str, Any], param: str) -> None:
    if problem := misfit(arguments, parameters):
        where = ".".join(map(str, (param, *problem.absolute_path)))
        rule = f"{problem.validator}: {json.dumps(problem.validator_value, default=str)[:_MAX_RULE_CHARS]}"
        raise InvalidAnswer(f"{where} does not fit the tool ({rule}).", where)


def _option(options: tuple[Option, ...], key: str) -> Option:
    return next(option for option in options if option.key == key)


def _with_labels(question: FormQuestion, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with what the person read in place of the keys of options, beside the key where that says more."""
    fields = {field.key: field for field in question.fields}
    return {key: _labelled(fields[key], value) for key, value in values.items()}


def _labelled(field: FormField, value: Any) -> Any:
    match field:
        case SelectField():
            return _shown(_option(field.options, value))
        case MultiselectField():
            return [_shown(_option(field.options, key)) for key in value]
        case _:
            return value


def _shown(option: Option) -> str | dict[str, str]:
    return option.value if option.key == option.value else option.model_dump()
