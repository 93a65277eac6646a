"""How questions and answers look over HTTP: what clients send, and what they are shown in whose words."""

import json
from typing import Any

import pytest

from stepagent.announcing import view
from stepagent.api import shapes
from stepagent.api.chat import Transcript
from stepagent.api.requests import read_answer_request
from stepagent.errors import InvalidRequest
from stepagent.interactions import Interaction
from stepagent.questions import ChoiceQuestion, FormQuestion, Question, TextQuestion, ask_approval
from stepagent.runs import CallAddress, InteractionId
from stepagent.store.journal import Event
from tests.builders import NOON, OWNER, RUN_ID, call_id

OPTIONS = [{"key": "s", "value": "Small"}, {"key": "l", "value": "Large"}]
FIELDS = [
    {"key": "name", "label": "Your name", "type": "text", "required": True, "max_length": 50},
    {"key": "age", "type": "integer", "min": 0, "max": 120, "default": 0},
    {"key": "weight", "type": "number"},
    {"key": "news", "type": "boolean", "default": False},
    {"key": "day", "type": "date", "min": "2030-01-01"},
    {"key": "plan", "type": "select", "options": OPTIONS},
    {"key": "extras", "type": "multiselect", "options": OPTIONS, "default": ["s"]},
]


def an_interaction(question: Question, **changes: Any) -> Interaction:
    values = {
        "interaction_id": InteractionId("q1"),
        "run_id": RUN_ID,
        "call_id": call_id(0),
        "tool": "ask",
        "owner": OWNER,
        "question": question,
        "created_at": NOON,
        "expires_at": NOON,
    }
    return Interaction.model_validate(values | changes)


def interactive(question: Question) -> dict[str, Any]:
    shown: dict[str, Any] = shapes.interactive(view(an_interaction(question)))["interactive"]
    return shown


def form() -> FormQuestion:
    return FormQuestion.model_validate({"description": "Who are you?", "fields": FIELDS})


def choice() -> ChoiceQuestion:
    return ChoiceQuestion.model_validate({"description": "Which?", "options": OPTIONS})


# ---- events with detail


def test_choice_is_shown_as_a_selection() -> None:
    assert interactive(choice()) == {
        "type": "userSelect",
        "params": {"description": "Which?", "userSelectOptions": OPTIONS},
        "id": "q1",
    }


def test_form_is_shown_as_inputs() -> None:
    shown = interactive(form())
    assert (shown["type"], shown["params"]["description"]) == ("userInput", "Who are you?")
    listed = [{"label": "Small", "value": "s"}, {"label": "Large", "value": "l"}]
    assert shown["params"]["inputForm"] == [
        {
            "type": "input",
            "key": "name",
            "label": "Your name",
            "valueType": "string",
            "required": True,
            "maxLength": 50,
        },
        {
            "type": "numberInput",
            "key": "age",
            "label": "age",
            "valueType": "number",
            "required": False,
            "defaultValue": 0,
            "min": 0,
            "max": 120,
        },
        {"type": "numberInput", "key": "weight", "label": "weight", "valueType": "number", "required": False},
        {
            "type": "switch",
            "key": "news",
            "label": "news",
            "valueType": "boolean",
            "required": False,
            "defaultValue": False,
        },
        {
            "type": "timePointSelect",
            "key": "day",
            "label": "day",
            "valueType": "string",
            "required": False,
            "min": "2030-01-01",
        },
        {"type": "select", "key": "plan", "label": "plan", "valueType": "string", "required": False, "list": listed},
        {
            "type": "multipleSelect",
            "key": "extras",
            "label": "extras",
            "valueType": "arrayString",
            "required": False,
            "defaultValue": ["s"],
            "list": listed,
        },
    ]


def test_approval_is_shown_with_what_will_run() -> None:
    shown = interactive(ask_approval("ask", {"q": "x"}, {"count": 3}, "d"))
    assert shown["type"] == "approval"
    assert shown["params"] == {
        "description": "May ask run?",
        "tool": "ask",
        "arguments": {"q": "x"},
        "bound": {"count": 3},
        "digest": "d",
    }


def test_text_is_shown_with_its_words() -> None:
    assert interactive(TextQuestion(description="Which?")) == {
        "type": "text",
        "params": {"description": "Which?"},
        "id": "q1",
    }


# ---- everywhere else


@pytest.mark.parametrize(
    "question", [choice(), form(), ask_approval("ask", {}, {}, "d"), TextQuestion(description="?")]
)
def test_owner_sees_the_fields_of_the_question_beside_those_of_all(question: Question) -> None:
    shown = view(an_interaction(question, top=CallAddress(run_id=RUN_ID, call_id=call_id(1))))
    assert set(question.model_dump()) < set(shown)
    assert "owner" not in shown
    assert (shown["interaction_id"], shown["status"], shown["answer"]) == ("q1", "pending", None)
    assert shown["top"] == {"run_id": RUN_ID, "call_id": call_id(1)}
    assert json.dumps(shown)


def test_chat_shows_a_question_once_when_it_is_told_twice() -> None:
    transcript = Transcript()
    event = Event(1, "interaction.required", "", view(an_interaction(choice())))
    said = [transcript.add(event), transcript.add(event)]
    assert said == [{"content": "Which?\n- s: Small\n- l: Large"}, {}]


# ---- answers


@pytest.mark.parametrize("answer", ["blue", {"name": "Ann"}, {}])
def test_answer_is_a_text_or_an_object(answer: Any) -> None:
    assert read_answer_request(json.dumps({"answer": answer}).encode()).answer == answer


@pytest.mark.parametrize("answer", ["", None, 7, True, ["x"]])
def test_answer_is_refused_with_its_field_when_it_is_neither(answer: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_answer_request(json.dumps({"answer": answer}).encode())
    assert refused.value.param == "answer"
