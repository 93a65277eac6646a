"""Questions of agents asked by lines, and what is sent for the answers."""

import io
from typing import Any

import pytest
from rich.console import Console

from local import ask_person as subject
from local.api_client import ApiClient, ApiError
from local.ask_form import terms
from local.ask_person import ask_person, in_full
from local.prompts import LinePrompts
from stepagent.forms import FormField
from stepagent.planning.plan import make_plan
from stepagent.questions import ApprovalQuestion, FormQuestion
from tests.plans import a_step

APPROVAL: dict[str, Any] = {"arguments": {"to": "ada", "note": "x"}, "bound": {"sender": "office"}, "digest": "d1"}
FIELDS: list[dict[str, Any]] = [
    {"key": "name", "label": "Your name", "type": "text", "required": True, "max_length": 5},
    {"key": "day", "type": "date", "min": "2026-01-01"},
    {"key": "people", "type": "integer", "min": 1, "max": 20, "default": 1},
    {"key": "sure", "type": "boolean"},
    {"key": "way", "type": "select", "options": [{"key": "p", "value": "phone"}, "video"], "default": "p"},
    {"key": "tags", "type": "multiselect", "options": ["a", "b", "c"], "max": 2},
]
BLANK = [""] * (len(FIELDS) - 1)


class Answered(ApiClient):
    """An API with one question, which refuses as it is told before it takes an answer."""

    def __init__(self, type_: str, *refusals: ApiError, **question: Any) -> None:
        common = {"description": "Well?", "tool": "send_mail", "status": "pending"}
        self._asked = {"type": type_, **common, **question}
        self._refusals = list(refusals)
        self.answers: list[Any] = []

    def read_interaction(self, interaction_id: str) -> dict[str, Any]:
        return {"interaction_id": interaction_id, "text": "in words", **self._asked}

    def answer(self, interaction_id: str, answer: str | dict[str, Any]) -> None:
        self.answers.append(answer)
        if self._refusals:
            raise self._refusals.pop(0)


def refused(param: str) -> ApiError:
    return ApiError("That does not fit.", "invalid_answer", param)


def ask(api: Answered, *given: str) -> tuple[bool, str]:
    """Whether the answer was taken, and all that was shown."""
    shown, left = io.StringIO(), list(given)
    prompts = LinePrompts(Console(file=shown, width=200), lambda prompt: left.pop(0))
    taken = ask_person(api, prompts, "i1")
    assert not left, f"nobody asked for {left}"
    return taken, shown.getvalue()


def form(*refusals: ApiError) -> Answered:
    return Answered("form", *refusals, fields=FIELDS)


def test_text_is_sent_as_it_is_and_asked_for_until_there_is_one() -> None:
    api = Answered("text")
    taken, shown = ask(api, "", "  ", " blue ")
    assert (taken, api.answers, shown.splitlines()[1]) == (True, ["blue"], "Well?")


def test_key_is_sent_and_the_value_shown_when_a_person_chooses() -> None:
    api = Answered("choice", options=[{"key": "k1", "value": "Deep blue"}, {"key": "k2", "value": "Red"}])
    _, shown = ask(api, "red")
    assert (api.answers, "1. Deep blue" in shown, "k1" in shown) == (["k2"], True, False)


def test_fields_are_sent_with_their_types_and_blank_ones_as_their_defaults() -> None:
    api = form()
    ask(api, "Ada", "2026-02-03", "7", "yes", "video", "c, 1")
    given = {"name": "Ada", "day": "2026-02-03", "people": 7, "sure": True, "way": "video", "tags": ["c", "a"]}
    assert api.answers == [given]
    api = form()
    ask(api, "Ada", *BLANK)
    assert api.answers == [{"name": "Ada", "people": 1, "way": "p", "tags": []}]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["", "Ada", *BLANK], "Your name is required."),
        (["Ada Lovelace", "Ada", *BLANK], "Your name has more than 5 characters."),
        (["Ada", "tomorrow", *BLANK], "day must be a date, as YYYY-MM-DD."),
        (["Ada", "", "many", *BLANK[1:]], "people must be a whole number."),
        (["Ada", "", "NaN", *BLANK[1:]], "people must be a whole number."),
        (["Ada", "", "21", *BLANK[1:]], "people must be at most 20."),
        (["Ada", "", "", "", "", "1,2,3", ""], "tags takes between 0 and 2 options."),
    ],
)
def test_field_is_asked_again_at_once_with_the_reason_when_its_value_does_not_fit(given: list[str], why: str) -> None:
    api = form()
    _, shown = ask(api, *given)
    assert (len(api.answers), why in shown) == (1, True)


def test_only_the_field_that_the_server_names_is_asked_again() -> None:
    api = form(refused("answer.people"))
    _, shown = ask(api, "Ada", *BLANK, "3")
    assert [answer["people"] for answer in api.answers] == [1, 3]
    assert api.answers[1]["name"] == "Ada"
    assert shown.index("That does not fit.") < shown.rindex("people (whole number")


def test_all_is_asked_again_when_the_server_names_no_field() -> None:
    api = form(refused("answer"))
    ask(api, "Ada", *BLANK, "Bob", *BLANK)
    assert [answer["name"] for answer in api.answers] == ["Ada", "Bob"]


def test_terms_of_a_field_are_told() -> None:
    fields: tuple[FormField, ...] = FormQuestion.model_validate({"description": "", "fields": FIELDS}).fields
    assert [terms(field) for field in fields] == [
        "text, at most 5 characters, required",
        "date as YYYY-MM-DD, at least 2026-01-01, optional",
        "whole number, at least 1, at most 20, optional",
        "yes or no, optional",
        "one of these, optional",
        "0 to 2 of these, optional",
    ]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (["approve"], {"decision": "approve", "digest": "d1"}),
        (["reject", "not today"], {"decision": "reject", "digest": "d1", "reason": "not today"}),
        (["3", ""], {"decision": "reject", "digest": "d1", "reason": ""}),
        (["edit", '{"to": "bob"}'], {"decision": "edit", "digest": "d1", "arguments": {"to": "bob"}}),
        (["no", "yes", "r", ""], {"decision": "reject", "digest": "d1", "reason": ""}),
    ],
)
def test_decision_counts_for_the_arguments_that_were_shown(given: list[str], answer: dict[str, Any]) -> None:
    api = Answered("approval", **APPROVAL)
    ask(api, *given)
    assert api.answers == [answer]


@pytest.mark.parametrize("wrong", ["{", "[1]", '{"to": NaN}'])
def test_nothing_is_sent_when_the_edited_arguments_are_no_json_object(wrong: str) -> None:
    api = Answered("approval", **APPROVAL)
    _, shown = ask(api, "edit", wrong, "approve")
    assert ([answer["decision"] for answer in api.answers], "Nothing is decided yet." in shown) == (["approve"], True)


def test_refused_edit_is_shown_and_its_text_edited_on() -> None:
    api = Answered("approval", refused("answer.arguments.to"), **APPROVAL)
    _, shown = ask(api, "edit", '{"to": 5}', "edit", "")
    assert [answer["arguments"] for answer in api.answers] == [{"to": 5}, {"to": 5}]
    assert "That does not fit." in shown


def test_call_is_shown_in_full_with_bound_arguments_marked_and_nothing_unseen() -> None:
    arguments = {"to": "ada\u202e\x9b", "list": [1, {"a": "ä"}]}
    bound = {"to": "boss", "sender": "office"}
    question = ApprovalQuestion(description="May it run?", arguments=arguments, bound=bound, digest="")
    assert in_full(question).splitlines() == [
        "(",
        '  "to": "boss"   (set by the agent\'s author)',
        '  "list": [',
        "    1,",
        "    {",
        '      "a": "ä"',
        "    }",
        "  ]",
        '  "sender": "office"   (set by the agent\'s author)',
        ")",
    ]
    assert "\\u202e\\u009b" in in_full(question.model_copy(update={"bound": {}}))


@pytest.mark.parametrize("code", ["conflict", "expired", "not_found"])
def test_question_is_given_up_in_a_plain_sentence_when_it_is_over(code: str) -> None:
    taken, shown = ask(Answered("text", ApiError("technical", code)), "blue")
    assert (taken, subject._REFUSED[code] in shown, "technical" in shown) == (False, True, False)


@pytest.mark.parametrize("status", ["answered", "expired", "cancelled"])
def test_nobody_is_asked_when_the_question_is_no_longer_open(status: str) -> None:
    taken, shown = ask(Answered("text", status=status))
    assert (taken, f"{status}" in shown) == (False, True)


def test_failure_goes_on_when_the_api_cannot_be_reached() -> None:
    with pytest.raises(ApiError, match="broke off"):
        ask(Answered("text", ApiError("It broke off.", "unreachable")), "blue")


def plan_question(*refusals: ApiError) -> Answered:
    plan = make_plan([a_step("a"), a_step("b", "a")], 5)
    return Answered("plan", *refusals, plan=plan.model_dump(mode="json"), max_steps=5)


def test_plan_is_shown_step_by_step_and_approved() -> None:
    api = plan_question()
    _, shown = ask(api, "approve")
    assert (api.answers, "b. Title b (after a)" in shown) == ([{"decision": "approve"}], True)


def test_plan_is_rejected_with_a_reason() -> None:
    api = plan_question()
    ask(api, "reject", "too dear")
    assert api.answers == [{"decision": "reject", "reason": "too dear"}]


def test_steps_are_edited_until_they_are_a_list_that_the_server_takes() -> None:
    api = plan_question(refused("answer.steps.0.title"))
    _, shown = ask(api, "edit", '{"id": "x"}', "edit", '[{"id": "x"}]', "edit", '[{"id": "x", "title": "X"}]')
    assert [answer["steps"] for answer in api.answers] == [[{"id": "x"}], [{"id": "x", "title": "X"}]]
    assert "The steps are one JSON list." in shown
