"""The scripted model of the benchmarks: what it says, and when it said it."""

import json
import time
from typing import Any

import httpx
import pytest

from bench.model import ANSWER, PERSON, Speech, TimedModel, question
from tests.scripted_replies import Reply


def request(text: str, *roles: str) -> dict[str, Any]:
    said = [{"role": role, "content": text if role == "user" else ""} for role in roles]
    return {"messages": said, "stream": True}


def reply(text: str, *roles: str) -> Reply:
    return Speech()(request(text, *roles))


def test_model_asks_for_as_many_calls_as_the_question_says() -> None:
    assert [name for name, _ in reply(question(2, 3, "x"), "system", "user").calls] == ["calculator"] * 3


def test_model_answers_when_the_turns_are_over() -> None:
    assert reply(question(1, 1, "x"), "user", "assistant", "tool").text == ANSWER


def test_model_counts_the_turns_of_the_last_question_only() -> None:
    assert reply(question(1, 1, "x"), "user", "assistant", "tool", "assistant", "user").calls


def test_model_asks_a_person_where_the_question_names_one() -> None:
    assert reply(question(1, 1, PERSON), "user").calls[0][0] == "ask_user"


def test_replies_are_timed_from_the_request_to_the_last_word() -> None:
    with TimedModel(Speech(first_token_s=0.1)) as model:
        began = time.time()
        httpx.post(f"{model.base_url}/chat/completions", json=request("turns 0 calls 0", "user"), trust_env=False)
        [span] = model.replies_to("turns 0 calls 0", 1)
        assert began <= span.began < span.began + 0.09 <= span.ended  # clocks differ a little


def test_replies_of_another_number_than_expected_are_an_error() -> None:
    with TimedModel() as model:
        httpx.post(f"{model.base_url}/chat/completions", json=request("other", "user"), trust_env=False)
        model.replies_to("other", 1)
        with pytest.raises(RuntimeError, match="took 1 replies of the model in place of 0"):
            model.replies_to("other", 0)


def test_size_of_the_last_request_is_kept() -> None:
    asked = request("sized", "user")
    with TimedModel() as model:
        httpx.post(f"{model.base_url}/chat/completions", content=json.dumps(asked), trust_env=False)
        assert model.request_bytes["sized"] == len(json.dumps(asked))
