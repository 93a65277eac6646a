"""What clients ask of an answer and of the model, as the official client sends it and the model receives it."""

import json
from typing import Any

import httpx
from openai import OpenAI
from pydantic import BaseModel

from tests.scripted_model import Reply, ScriptedModel

HELLO: Any = [{"role": "user", "content": "What is 17*23?"}]
SUM = Reply(calls=(("calculator", {"expression": "17*23"}),), text="Let me count.")


class Product(BaseModel):
    value: int


def client_of(api: httpx.Client) -> OpenAI:
    return OpenAI(base_url=str(api.base_url), api_key="local", max_retries=0)


def test_answer_is_parsed_when_the_client_wants_a_model_of_its_own(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."), Reply(text='{"value": 391}'))
    reply = client_of(api).chat.completions.parse(model="assistant", messages=HELLO, response_format=Product)
    assert reply.choices[0].message.parsed == Product(value=391)
    assert "tools" not in model.requests[-1]


def test_nothing_but_the_answer_is_streamed_when_a_form_is_wanted(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."), Reply(text='{"value": 391}'))
    stream = client_of(api).chat.completions.create(
        model="assistant", messages=HELLO, response_format={"type": "json_object"}, stream=True
    )
    assert json.loads("".join(chunk.choices[0].delta.content or "" for chunk in stream)) == {"value": 391}


def test_completion_is_an_error_when_the_answer_never_has_the_form(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(Reply(text="one"), Reply(text="two"))
    wanted = {"model": "assistant", "messages": HELLO, "response_format": {"type": "json_object"}}
    reply = api.post("/chat/completions", json=wanted)
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "model_reply_unusable")


def test_model_receives_what_the_client_asks_of_it(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(Reply(text="391"))
    wishes: dict[str, Any] = {"temperature": 0.5, "top_p": 0.5, "stop": ["END"], "seed": 7, "presence_penalty": 1}
    client_of(api).chat.completions.create(model="assistant", messages=HELLO, max_tokens=9, **wishes)
    sent = model.requests[-1]
    assert {name: sent.get(name) for name in (*wishes, "max_tokens")} == {**wishes, "max_tokens": 9}


def test_run_shows_what_the_client_noted_about_it(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(Reply(text="391"))
    reply = client_of(api).chat.completions.with_raw_response.create(
        model="assistant", messages=HELLO, metadata={"order": "7"}, user="u-1"
    )
    run = api.get(f"/runs/{reply.headers['x-stepagent-run-id']}").json()
    assert (run["metadata"], run["user"], reply.headers["x-stepagent-stop-reason"]) == (
        {"order": "7"},
        "u-1",
        "answered",
    )
