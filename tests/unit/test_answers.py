"""What a person answers: what fits a question, the one form in which it is kept, and what the model reads."""

from typing import Any

import pytest

from stepagent.answers import Answer, check_answer, lets_run, text_for_model
from stepagent.errors import InvalidAnswer
from stepagent.planning.plan import make_plan
from stepagent.questions import (
    ChoiceQuestion,
    FormQuestion,
    PlanQuestion,
    Question,
    TextQuestion,
    ask_approval,
    ask_plan,
    in_words,
)
from tests.builders import SEARCH_SCHEMA
from tests.plans import DIAMOND

TEXT = TextQuestion(description="Which?")
CHOICE = ChoiceQuestion.model_validate(
    {"description": "Which plan?", "options": [{"key": "s", "value": "Small"}, {"key": "l", "value": "Large"}, "Other"]}
)
APPROVAL = ask_approval("search", {"q": "x"}, {"count": 3}, "digest")


def form(*fields: dict[str, Any]) -> FormQuestion:
    return FormQuestion.model_validate({"description": "Fill in.", "fields": fields})


def field(type_: str, **terms: Any) -> FormQuestion:
    """A form of one field, `f`."""
    return form({"key": "f", "type": type_, **terms})


def refusal(question: Question, given: Answer, parameters: dict[str, Any] | None = None) -> InvalidAnswer:
    with pytest.raises(InvalidAnswer) as refused:
        check_answer(question, given, parameters)
    return refused.value


# ---- texts


def test_text_is_kept_without_outer_blanks() -> None:
    assert check_answer(TEXT, "  blue \n") == "blue"


@pytest.mark.parametrize("given", ["", "  ", "\n\t", "x" * 20_001, {"text": "blue"}])
def test_text_is_refused_when_it_is_blank_too_long_or_none(given: Answer) -> None:
    assert refusal(TEXT, given).param == "answer"


def test_model_reads_a_text_as_it_was_said() -> None:
    assert text_for_model(TEXT, "blue") == ("blue", False)


# ---- choices


@pytest.mark.parametrize(
    ("given", "key"),
    [("s", "s"), ("Small", "s"), (" s ", "s"), ("S", "s"), ("small", "s"), ("LARGE", "l"), ("other", "Other")],
)
def test_choice_is_known_by_key_or_value_and_last_by_other_letters(given: str, key: str) -> None:
    assert check_answer(CHOICE, given) == key


@pytest.mark.parametrize(("given", "key"), [("b", "b"), ("B", "B"), ("a", "B"), ("A", "b")])
def test_key_counts_before_value_and_both_before_other_letters(given: str, key: str) -> None:
    options = [{"key": "b", "value": "A"}, {"key": "B", "value": "a"}]
    assert check_answer(ChoiceQuestion.model_validate({"description": "", "options": options}), given) == key


def test_choice_is_refused_when_two_options_are_like_it() -> None:
    options = [{"key": "b", "value": "x"}, {"key": "B", "value": "y"}, {"key": "c", "value": "No"}, "NO"]
    question = ChoiceQuestion.model_validate({"description": "", "options": options})
    assert refusal(question, "no").param == "answer"


@pytest.mark.parametrize("given", ["", "z", "Small Large", {"key": "s"}])
def test_choice_is_refused_with_the_options_when_it_is_none_of_them(given: Answer) -> None:
    error = refusal(CHOICE, given)
    assert (error.param, "s, l, Other" in error.message) == ("answer", True)


@pytest.mark.parametrize(("key", "text"), [("s", "Small (key: s)"), ("Other", "Other")])
def test_model_reads_the_value_of_a_choice_and_its_key_if_that_differs(key: str, text: str) -> None:
    assert text_for_model(CHOICE, key) == (text, False)


# ---- forms


@pytest.mark.parametrize(
    ("question", "given", "kept"),
    [
        (field("text"), "blue", "blue"),
        (field("text"), " x ", " x "),
        (field("text", pattern="[a-z]+", max_length=3), "abc", "abc"),
        (field("number"), 2.5, 2.5),
        (field("number", min=0), 0, 0),
        (field("integer"), 3, 3),
        (field("integer"), 3.0, 3),
        (field("integer"), 2**70, 2**70),
        (field("boolean"), False, False),
        (field("date"), "2030-02-28", "2030-02-28"),
        (field("date", min="2030-01-01", max="2030-01-01"), "2030-01-01", "2030-01-01"),
        (field("select", options=["x", {"key": "y", "value": "Why"}]), "why", "y"),
        (field("multiselect", options=["x", "y", "z"]), ["z", "X", "z"], ["x", "z"]),
        (field("multiselect", options=["x"]), [], []),
    ],
)
def test_value_of_a_form_is_kept_in_the_type_of_its_field(question: FormQuestion, given: Any, kept: Any) -> None:
    checked = check_answer(question, {"f": given})
    assert checked == {"f": kept}
    assert isinstance(checked, dict)
    assert type(checked["f"]) is type(kept)


@pytest.mark.parametrize(
    ("question", "given"),
    [
        (field("text"), 7),
        (field("text", max_length=3), "long"),
        (field("text", pattern="[a-z]+"), "abc1"),
        (field("number"), "2"),
        (field("number"), True),
        (field("number"), float("inf")),
        (field("number", min=1), 0.5),
        (field("number", max=1), 1.5),
        (field("integer"), 2.5),
        (field("integer"), float("nan")),
        (field("boolean"), "yes"),
        (field("boolean"), 1),
        (field("date"), "28.02.2030"),
        (field("date"), "20300228"),
        (field("date"), "2030-02-30"),
        (field("date", min="2030-01-02"), "2030-01-01"),
        (field("select", options=["x"]), "y"),
        (field("select", options=["x"]), ["x"]),
        (field("multiselect", options=["x"]), "x"),
        (field("multiselect", options=["x"]), ["y"]),
        (field("multiselect", options=["x"]), [1]),
        (field("multiselect", options=["x", "y"], min=1), []),
        (field("multiselect", options=["x", "y"], max=1), ["x", "y"]),
        (field("text", required=True), None),
        (field("text", required=True), "  "),
    ],
)
def test_form_is_refused_with_its_field_when_a_value_does_not_fit(question: FormQuestion, given: Any) -> None:
    assert refusal(question, {"f": given}).param == "answer.f"


def test_form_is_refused_with_its_field_when_a_required_one_is_missing() -> None:
    error = refusal(form({"key": "a", "label": "Name", "type": "text", "required": True}), {})
    assert (error.param, error.message) == ("answer.a", "Name is required.")


def test_form_is_refused_when_it_has_a_field_that_was_not_asked_for() -> None:
    assert refusal(field("text"), {"f": "x", "g": 1}).param == "answer.g"


@pytest.mark.parametrize("given", [{}, {"f": None}, {"f": " "}])
def test_field_has_its_default_when_it_was_left_out(given: dict[str, Any]) -> None:
    assert check_answer(field("integer", default=3, required=True), given) == {"f": 3}


def test_field_is_left_out_when_it_was_not_given_and_has_no_default() -> None:
    assert check_answer(form({"key": "a", "type": "text"}, {"key": "b", "type": "boolean"}), {"b": False}) == {
        "b": False
    }


@pytest.mark.parametrize(("type_", "default"), [("date", "2030-01-02"), ("multiselect", ["x"]), ("select", "x")])
def test_default_is_kept_in_the_form_of_an_answer(type_: str, default: Any) -> None:
    options = {} if type_ == "date" else {"options": ["x"]}
    assert check_answer(field(type_, default=default, **options), {}) == {"f": default}


def test_form_is_taken_as_the_text_of_an_object_when_it_is_said_in_a_chat() -> None:
    assert check_answer(field("integer"), ' {"f": 3} ') == {"f": 3}


@pytest.mark.parametrize("given", ["three", "[3]", "3", "{", '{"f": NaN}', ""])
def test_form_is_refused_when_the_text_is_no_object(given: str) -> None:
    assert refusal(field("integer"), given).param == "answer"


def test_model_reads_a_form_as_json_with_what_the_person_read() -> None:
    options = ["x", {"key": "y", "value": "Wäre"}]
    question = form(
        {"key": "one", "type": "select", "options": options},
        {"key": "more", "type": "multiselect", "options": options},
        {"key": "n", "type": "integer"},
    )
    kept = check_answer(question, {"one": "Wäre", "more": ["y", "x"], "n": 0})
    y = '{"key": "y", "value": "Wäre"}'
    assert text_for_model(question, kept) == (f'{{"one": {y}, "more": ["x", {y}], "n": 0}}', False)


# ---- approvals


@pytest.mark.parametrize("given", ["approve", " Approve ", "APPROVE", "yes", "yes.", {"decision": "approve"}])
def test_call_is_approved_by_a_word_or_an_object(given: Answer) -> None:
    assert check_answer(APPROVAL, given) == {"decision": "approve"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("reject", ""),
        ("No", ""),
        ("reject: not today: really", "not today: really"),
        ("no, ask Bob first", "ask Bob first"),
        ("reject -\nlater", "later"),
        ({"decision": "reject", "reason": " later "}, "later"),
        ('{"decision": "reject", "reason": "later"}', "later"),
    ],
)
def test_call_is_rejected_with_its_reason(given: Answer, reason: str) -> None:
    assert check_answer(APPROVAL, given) == {"decision": "reject", "reason": reason}


@pytest.mark.parametrize(
    "given",
    [
        "",
        "maybe",
        "approve it",
        "approve, if it is cheap",
        "no problem",
        "approved",
        '"approve"',
        {},
        {"decision": "maybe"},
        {"decision": "approve", "more": 1},
        {"decision": "reject", "reason": "x" * 2_001},
        {"decision": "reject", "reason": 7},
    ],
)
def test_decision_is_refused_when_it_is_not_clear(given: Answer) -> None:
    assert (refusal(APPROVAL, given).param or "").startswith("answer")


def test_decision_counts_only_for_the_arguments_that_it_names() -> None:
    assert check_answer(APPROVAL, {"decision": "approve", "digest": "digest"}) == {"decision": "approve"}
    assert refusal(APPROVAL, {"decision": "approve", "digest": "other"}).param == "answer.digest"


def test_call_is_edited_when_its_new_arguments_fit_the_tool() -> None:
    given: Answer = {"decision": "edit", "arguments": {"q": "y"}}
    assert check_answer(APPROVAL, given, SEARCH_SCHEMA) == given


def test_edit_is_an_approval_when_it_changes_nothing() -> None:
    given: Answer = {"decision": "edit", "arguments": {"q": "x"}}
    assert check_answer(APPROVAL, given, SEARCH_SCHEMA) == {"decision": "approve"}


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        (None, "answer.arguments"),
        ({}, "answer.arguments"),
        ({"q": 7}, "answer.arguments.q"),
        ({"q": "x", "other": 1}, "answer.arguments"),
        ({"q": "x", "count": 4}, "answer.arguments.count"),
        ({"q": float("inf")}, "answer.arguments"),
    ],
)
def test_edit_is_refused_when_the_arguments_do_not_fit_or_are_the_authors(arguments: Any, param: str) -> None:
    assert refusal(APPROVAL, {"decision": "edit", "arguments": arguments}, SEARCH_SCHEMA).param == param


@pytest.mark.parametrize(
    ("kept", "runs"),
    [
        ({"decision": "approve"}, True),
        ({"decision": "edit", "arguments": {}}, True),
        ({"decision": "reject", "reason": ""}, False),
    ],
)
def test_call_runs_when_it_was_approved_or_edited(kept: Answer, runs: bool) -> None:
    assert lets_run(APPROVAL, kept) is runs


def test_no_answer_to_a_question_lets_a_call_run() -> None:
    assert not lets_run(TEXT, "approve")
    assert not lets_run(APPROVAL, None)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("", "Not run: a person rejected this call."),
        ("too late", "Not run: a person rejected this call. The reason: too late"),
    ],
)
def test_model_reads_a_rejection_as_an_error_with_its_reason(reason: str, text: str) -> None:
    assert text_for_model(APPROVAL, {"decision": "reject", "reason": reason}) == (text, True)


# ---- a plan


def plan_question() -> PlanQuestion:
    return ask_plan({"plan": make_plan(DIAMOND, 5).model_dump(mode="json")}, 5)


def test_plan_is_approved_in_plain_words() -> None:
    kept = check_answer(plan_question(), "approve")
    assert (kept, text_for_model(plan_question(), kept)) == (
        {"decision": "approve"},
        ('{"decision": "approve"}', False),
    )


def test_plan_is_rejected_with_the_reason() -> None:
    assert check_answer(plan_question(), "reject: too dear") == {"decision": "reject", "reason": "too dear"}


def test_plan_is_edited_as_its_steps_are_written() -> None:
    kept = check_answer(
        plan_question(), '{"decision": "edit", "steps": [{"id": 1, "title": "T", "status": "pending"}]}'
    )
    assert kept == {"decision": "edit", "steps": [{"id": "1", "title": "T", "description": "", "depends_on": []}]}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"decision": "edit"}, "answer.steps"),
        ({"decision": "edit", "steps": []}, "answer.steps"),
        ({"decision": "edit", "steps": [{"id": "a"}]}, "answer.steps.0.title"),
        ({"decision": "edit", "steps": [{"id": "a", "title": "T", "depends_on": ["x"]}]}, "answer.steps.0.depends_on"),
        ({"decision": "edit", "steps": [{"id": "a", "title": "T"}] * 2}, "answer.steps.1.id"),
        ({"decision": "maybe"}, "answer.decision"),
        ({"decision": "approve", "digest": "x"}, "answer.digest"),
        ("approve, but later", "answer"),
    ],
)
def test_answer_to_a_plan_is_refused_by_the_field_that_does_not_fit(given: Answer, param: str) -> None:
    with pytest.raises(InvalidAnswer) as refused:
        check_answer(plan_question(), given)
    assert refused.value.param == param


def test_plan_is_asked_about_in_lines_that_a_chat_can_show() -> None:
    lines = in_words(plan_question()).splitlines()
    assert lines[:4] == ["May this plan be carried out?", "a. Title a", "   Do a.", "b. Title b (after a)"]
    assert lines[-1] == "Answer approve, or reject and why."
