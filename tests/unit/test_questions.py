"""What a person is asked: from a tool's row and a call's arguments to the question and its words."""

from typing import Any

import pytest
from pydantic import ValidationError

from stepagent.errors import ToolError
from stepagent.questions import (
    ApprovalQuestion,
    ChoiceQuestion,
    FormQuestion,
    Question,
    TextQuestion,
    ask_approval,
    in_words,
    make_question,
)
from tests.builders import a_tool

PLANS = [{"key": "s", "value": "Small"}, {"key": "l", "value": "Large"}]
FORM = {
    "type": "form",
    "description": "Who are you?",
    "fields": [
        {"key": "name", "label": "Full name", "type": "text", "required": True},
        {"key": "age", "type": "integer", "min": 0, "max": 120},
    ],
}
WORDS = {"type": "object", "properties": {"question": {"type": "string"}, "options": {"type": "array"}}}


def asked(interaction: dict[str, Any] | None, **arguments: Any) -> Question:
    """The question of a tool whose parameters are `question` and `options`."""
    changes = {"interaction": interaction} if interaction else {}
    tool = a_tool("ask", kind="interactive", target="", parameters=WORDS, **changes)
    return make_question(tool.interaction, arguments)


def options_of(question: Question) -> list[tuple[str, str]]:
    assert isinstance(question, ChoiceQuestion)
    return [(option.key, option.value) for option in question.options]


# ---- rows without the field


def test_question_is_the_models_words_when_the_row_says_nothing() -> None:
    assert asked(None, question="Which colour?") == TextQuestion(description="Which colour?")


def test_question_is_a_choice_when_the_model_offers_options() -> None:
    question = asked(None, question="Which?", options=["x", {"key": "why", "value": "y"}, 3])
    assert options_of(question) == [("x", "x"), ("why", "y"), ("3", "3")]


@pytest.mark.parametrize("options", [[], None, "x, y", {"a": 1}])
def test_question_is_free_text_when_what_the_model_offers_is_no_list_of_something(options: Any) -> None:
    assert isinstance(asked(None, question="Which?", options=options), TextQuestion)


@pytest.mark.parametrize(
    "options",
    [
        [""],
        [None],
        [True],
        [["x"]],
        [{"value": "x"}],
        [{"key": "a", "value": "x"}, {"key": "a", "value": "y"}],
        ["x" * 2_000],
        [str(n) for n in range(101)],
    ],
)
def test_model_is_told_when_its_options_cannot_be_shown(options: list[Any]) -> None:
    with pytest.raises(ToolError, match="was not asked: options must be a list"):
        asked(None, question="Which?", options=options)


def test_option_is_shown_once_when_the_model_repeats_it() -> None:
    assert options_of(asked(None, question="Which?", options=["x", "y", "x"])) == [("x", "x"), ("y", "y")]


# ---- what the row says


def test_options_are_the_authors_when_the_row_has_some() -> None:
    row = {"type": "choice", "description": "Which plan?", "options": PLANS}
    assert options_of(asked(row, options=["z"])) == [("s", "Small"), ("l", "Large")]


def test_options_are_the_models_when_the_row_names_their_argument() -> None:
    row = {"type": "choice", "options_from": "options"}
    assert options_of(asked(row, question="Which?", options=["x"])) == [("x", "x")]


@pytest.mark.parametrize("options", [None, [], "x"])
def test_model_is_told_when_it_gives_no_options_to_a_choice(options: Any) -> None:
    with pytest.raises(ToolError):
        asked({"type": "choice", "options_from": "options"}, question="Which?", options=options)


def test_form_has_the_authors_fields_in_order() -> None:
    question = asked(FORM)
    assert isinstance(question, FormQuestion)
    assert [field.key for field in question.fields] == ["name", "age"]


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("{{question}}", "Sure?"),
        ("Say: {{ question }} Now.", "Say: Sure? Now."),
        ("{{question}}{{question}}", "Sure?Sure?"),
        ("{question} {{ question", "{question} {{ question"),
        ("Of {{options}}", 'Of ["ä", 1]'),
    ],
)
def test_placeholder_is_the_argument_as_text(description: str, expected: str) -> None:
    row = {"type": "text", "description": description}
    assert asked(row, question="Sure?", options=["ä", 1]).description == expected


def test_inserted_text_is_never_read_as_a_template() -> None:
    row = {"type": "text", "description": "{{question}} {{options}}"}
    assert asked(row, question="{{options}}", options=[]).description == "{{options}} []"


def test_placeholder_is_empty_when_the_model_left_the_argument_out() -> None:
    assert asked({"type": "text", "description": "({{question}})"}).description == "()"


def test_description_is_cut_when_the_model_writes_a_book() -> None:
    assert len(asked(None, question="x" * 50_000).description) == 8_000


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"type": "text", "description": "{{nothing}}"}, "no parameter"),
        ({"type": "choice", "options_from": "nothing"}, "no parameter"),
        ({"type": "choice"}, "either options or options_from"),
        ({"type": "choice", "options": PLANS, "options_from": "options"}, "either options or options_from"),
        ({"type": "choice", "options": []}, "at least 1"),
        ({"type": "choice", "options": ["a", "a"]}, "the key a"),
        ({"type": "form", "description": "", "fields": []}, "at least 1"),
        ({**FORM, "fields": [FORM["fields"][0], FORM["fields"][0]]}, "the key name"),
        (
            {**FORM, "fields": [{"key": "a", "type": "integer", "default": 5, "max": 4}]},
            "default of a must be at most 4",
        ),
        (
            {**FORM, "fields": [{"key": "a", "type": "select", "options": ["x"], "default": "y"}]},
            "default of a must be one",
        ),
        ({**FORM, "fields": [{"key": "a", "type": "text", "pattern": "("}]}, "regular expression"),
        ({**FORM, "fields": [{"key": "a", "type": "colour"}]}, "colour"),
        ({**FORM, "fields": [{"key": "a", "type": "boolean", "max_length": 3}]}, "max_length"),
        ({"type": "riddle"}, "riddle"),
    ],
)
def test_row_is_refused_when_it_cannot_be_asked(row: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        asked(row)


def test_row_is_refused_when_a_tool_of_another_kind_asks() -> None:
    with pytest.raises(ValidationError, match="only a tool of kind interactive"):
        a_tool(interaction={"type": "text", "description": "Which?"})


def test_placeholder_may_name_what_the_author_bound() -> None:
    row = {"type": "text", "description": "{{team}}: {{question}}"}
    tool = a_tool("ask", kind="interactive", target="", parameters=WORDS, bound={"team": "A"}, interaction=row)
    assert make_question(tool.interaction, {"question": "Sure?", "team": "A"}).description == "A: Sure?"


# ---- in words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (TextQuestion(description="Which?"), "Which?"),
        (
            ChoiceQuestion.model_validate({"description": "Which?", "options": ["x", PLANS[0]]}),
            "Which?\n- x\n- s: Small",
        ),
        (
            FormQuestion.model_validate({"description": FORM["description"], "fields": FORM["fields"]}),
            "Who are you?\n- name: Full name (text, required)\n- age: age (whole number, at least 0, at most 120)\n"
            "Answer with a JSON object of these fields.",
        ),
        (
            ask_approval("send", {"to": "ä"}, {"from": "me"}, "digest"),
            'May send run? {"to": "ä"}\nSet by the agent\'s author: {"from": "me"}\nAnswer approve, or reject and why.',
        ),
    ],
)
def test_question_in_words_says_all_that_an_answer_needs(question: Question, words: str) -> None:
    assert in_words(question) == words


def test_fields_in_words_say_what_each_takes() -> None:
    fields = [
        {"key": "n", "type": "number"},
        {"key": "b", "type": "boolean"},
        {"key": "d", "type": "date", "min": "2030-01-01"},
        {"key": "s", "type": "select", "options": ["x", "y"]},
        {"key": "m", "type": "multiselect", "options": PLANS},
    ]
    words = in_words(FormQuestion.model_validate({"description": "", "fields": fields})).splitlines()
    assert words[1:-1] == [
        "- n: n (number)",
        "- b: b (true or false)",
        "- d: d (date as YYYY-MM-DD, at least 2030-01-01)",
        "- s: s (one of x, y)",
        "- m: m (a list of s: Small, l: Large)",
    ]


def test_arguments_in_words_are_cut_when_they_are_long() -> None:
    question = ask_approval("send", {"text": "x" * 10_000}, {}, "digest")
    assert isinstance(question, ApprovalQuestion)
    assert "(10012 characters)" in in_words(question)
    assert question.arguments == {"text": "x" * 10_000}
