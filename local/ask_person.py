"""A question of an agent, asked in the terminal until an answer fits, and its answer brought to the API."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from pydantic import TypeAdapter
from pydantic_core import from_json

from local.api_client import ApiClient, ApiError
from local.ask_form import ask_form
from local.prompts import EditorFailed, Prompts
from local.terminal import unechoed
from stepagent.answers import Answer
from stepagent.options import Option
from stepagent.planning.plan import PlannedStep, StepStatus
from stepagent.questions import (
    ApprovalQuestion,
    ChoiceQuestion,
    FormQuestion,
    PlanQuestion,
    Question,
    TextQuestion,
    in_words,
)

_question: TypeAdapter[Question] = TypeAdapter(Question)
_COMMON = frozenset({"type", "description"})
_FIELDS = {
    "choice": {"options"},
    "form": {"fields"},
    "approval": {"arguments", "bound", "digest"},
    "plan": {"plan", "max_steps"},
}
_DECISIONS = (
    Option(key="approve", value="approve: it runs with these arguments"),
    Option(key="edit", value="edit: it runs with arguments that you change"),
    Option(key="reject", value="reject: it does not run, and the agent reads why"),
)
_PLAN_DECISIONS = (
    Option(key="approve", value="approve: it is carried out"),
    Option(key="edit", value="edit: it is carried out with steps that you change"),
    Option(key="reject", value="reject: the agent reads why, and makes another one"),
)
_OVER = {
    "answered": "This question has been answered meanwhile.",
    "expired": "This question has expired: nobody waits for an answer any more.",
    "cancelled": "This question was cancelled: nobody waits for an answer any more.",
}
_REFUSED = {
    "conflict": "Somebody else has answered this question meanwhile, otherwise than you.",
    "expired": "It was too late: the question has expired or was cancelled, and nobody waits for an answer any more.",
    "not_found": "This question is no longer there.",
}


def ask_person(client: ApiClient, prompts: Prompts, interaction_id: str) -> bool:
    """Asks a question, again where the answer does not fit; False where it turns out to be open no more.

    Raises:
        KeyboardInterrupt: the person leaves it open.
        NobodyAnswers: there is no input left.
        ApiError: the API cannot be reached.
    """
    with unechoed():
        asked = client.read_interaction(interaction_id)
    if over := _OVER.get(asked["status"]):
        prompts.show(over, "yellow")
        return False
    question = read_question(asked)
    prompts.show("\n" + _heading(question, asked["tool"]))
    answer: Answer | None = None
    at_fault = ""
    while True:
        answer = _ask(prompts, question, answer, at_fault)
        try:
            client.answer(interaction_id, answer)
        except ApiError as error:
            if error.code != "invalid_answer":
                return _give_up(prompts, error)
            prompts.show(str(error), "red")
            at_fault = error.param.removeprefix("answer.")
        else:
            return True


def read_question(asked: Mapping[str, Any]) -> Question:
    """What is asked, out of an interaction as the API shows it."""
    fields = _COMMON | _FIELDS.get(asked["type"], set())
    return _question.validate_python({name: asked[name] for name in fields})


def _give_up(prompts: Prompts, error: ApiError) -> bool:
    if error.code not in _REFUSED:
        raise error
    prompts.show(_REFUSED[error.code], "yellow")
    return False


def _heading(question: Question, tool: str) -> str:
    if isinstance(question, ApprovalQuestion):
        return f"{question.description}\n{tool}{in_full(question)}"
    if isinstance(question, PlanQuestion):
        return _visible(in_words(question).rpartition("\n")[0])
    return question.description


def in_full(question: ApprovalQuestion) -> str:
    """All arguments of a call, those that its author set marked. What cannot be seen is shown as an escape."""
    lines = []
    for name, value in {**question.arguments, **question.bound}.items():
        shown = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n  ")
        mark = "   (set by the agent's author)" if name in question.bound else ""
        lines.append(f"  {json.dumps(name, ensure_ascii=False)}: {shown}{mark}")
    return _visible("\n".join(["(", *lines, ")"]) if lines else "()")


def _visible(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def _ask(prompts: Prompts, question: Question, before: Answer | None, at_fault: str) -> Answer:
    """An answer; where one was refused, `before`, only what is at fault is asked again."""
    match question:
        case TextQuestion():
            return _ask_text(prompts)
        case ChoiceQuestion():
            return prompts.pick("your answer", question.options)
        case FormQuestion():
            return ask_form(prompts, question, before if isinstance(before, dict) else {}, at_fault)
        case ApprovalQuestion():
            return _ask_approval(prompts, question, before if isinstance(before, dict) else {})
        case PlanQuestion():
            return _ask_plan(prompts, question, before if isinstance(before, dict) else {})
        case _:
            assert_never(question)


def _ask_text(prompts: Prompts) -> str:
    while not (given := prompts.line("your answer")):
        pass
    return given


def _ask_approval(prompts: Prompts, question: ApprovalQuestion, before: Mapping[str, Any]) -> dict[str, Any]:
    """A decision, which counts for the arguments that were shown."""
    draft = before.get("arguments") or question.arguments
    return {"digest": question.digest, **_decide(prompts, _DECISIONS, {"arguments": draft})}


def _ask_plan(prompts: Prompts, question: PlanQuestion, before: Mapping[str, Any]) -> dict[str, Any]:
    still_open = [
        step.model_dump(include=set(PlannedStep.model_fields)) for step in question.plan.having(StepStatus.PENDING)
    ]
    return _decide(prompts, _PLAN_DECISIONS, {"steps": before.get("steps") or still_open})


def _decide(prompts: Prompts, decisions: Sequence[Option], editable: Mapping[str, Any]) -> dict[str, Any]:
    """A decision, with a reason or with what was edited."""
    ((field, value),) = editable.items()
    draft = _visible(json.dumps(value, ensure_ascii=False, indent=2))
    while True:
        decision = prompts.pick("your decision", decisions)
        match decision:
            case "approve":
                return {"decision": decision}
            case "reject":
                return {"decision": decision, "reason": prompts.line("why (optional)")}
        try:
            draft = prompts.edit(draft)
            return {"decision": decision, field: _json_in(draft, type(value))}
        except (EditorFailed, ValueError) as error:
            prompts.show(f"{error} Nothing is decided yet.", "red")


def _json_in(text: str, kind: type) -> Any:
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"That is no JSON: {error}.") from error
    if not isinstance(value, kind):
        raise ValueError("The arguments are one JSON object." if kind is dict else "The steps are one JSON list.")
    return value
