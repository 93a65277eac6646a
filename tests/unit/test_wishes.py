"""What a request may ask of an agent's model."""

import json
from typing import Any

import pytest

from stepagent.answer_form import AnswerForm
from stepagent.api import wishes as subject
from stepagent.api.requests import ChatRequest, read_chat_request
from stepagent.api.wishes import as_wanted
from stepagent.errors import InvalidRequest
from stepagent.llm.registry import ModelSpec
from stepagent.think import _wishes
from tests.builders import a_run

AGENT = a_run().agent
FORMED = AGENT.model_copy(update={"answer_form": AnswerForm(), "temperature": 0.5})


def asking(**fields: Any) -> ChatRequest:
    body = {"model": "helper", "messages": [{"role": "user", "content": "Hi"}]}
    return read_chat_request(json.dumps(body | fields).encode())


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's model, whose server takes no seed."""
    row = ModelSpec(name="default", provider_model="m", base_url="http://127.0.0.1:9", unsupported=("seed",))
    monkeypatch.setattr(subject, "load_models", lambda path: {"default": row})


def test_model_is_sent_what_the_request_asks_for() -> None:
    wanted = as_wanted(AGENT, asking(temperature=0, top_p=0.5, stop="END", presence_penalty=1, max_tokens=9))
    fields = _wishes(a_run(agent=wanted)).fields
    assert fields == {"temperature": 0, "top_p": 0.5, "stop": ("END",), "presence_penalty": 1, "max_tokens": 9}


def test_agent_stays_as_it_is_when_the_request_asks_for_nothing() -> None:
    assert as_wanted(FORMED, asking()) == FORMED


def test_model_is_sent_no_field_that_nobody_asked_for() -> None:
    assert _wishes(a_run()).fields == {}


@pytest.mark.parametrize(("field", "value"), [("seed", 7), ("reasoning_effort", "low")])
def test_request_is_refused_by_name_when_the_model_does_not_take_it(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        as_wanted(AGENT, asking(**{field: value}))
    assert (refused.value.param, refused.value.error_code) == (field, "unsupported_parameter")


@pytest.mark.parametrize(
    ("given", "form"), [(None, AnswerForm()), ({"type": "text"}, None), ({"type": "json_object"}, AnswerForm())]
)
def test_form_of_the_answer_is_the_requests_where_it_names_one(given: Any, form: AnswerForm | None) -> None:
    assert as_wanted(FORMED, asking(response_format=given)).answer_form == form


@pytest.mark.parametrize(("asked", "bound", "most"), [(9, None, 9), (9, 5, 5), (3, 5, 3)])
def test_request_lowers_the_bound_of_a_reply_and_never_raises_it(asked: int, bound: int | None, most: int) -> None:
    limits = AGENT.limits.model_copy(update={"max_output_tokens": bound})
    wanted = as_wanted(AGENT.model_copy(update={"limits": limits}), asking(max_completion_tokens=asked))
    assert wanted.limits.max_output_tokens == most


@pytest.mark.parametrize(("field", "value"), [("strategy", "plan"), ("strategy", "auto"), ("reasoning", "cot")])
def test_way_of_working_is_the_requests_where_it_names_one(field: str, value: str) -> None:
    assert getattr(as_wanted(AGENT, asking(**{field: value})), field) == value


@pytest.mark.parametrize(("field", "value"), [("strategy", "tree"), ("reasoning", "deep")])
def test_way_of_working_that_there_is_not_is_refused_by_name(field: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asking(**{field: value})
    assert refused.value.param == field
