"""The Responses API as OpenAI's own client meets it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.scripted_model import Fault, Reply, ScriptedModel

SUM = Reply(calls=(("calculator", {"expression": "17*23"}),))
QUESTION = Reply(calls=(("ask_user", {"question": "Which colour?"}),))
TEXT = [
    *["response.output_item.added", "response.content_part.added", "response.output_text.delta"],
    *["response.output_text.done", "response.content_part.done", "response.output_item.done"],
]


@pytest.fixture
def client(api: httpx.Client) -> Iterator[OpenAI]:
    with OpenAI(base_url=str(api.base_url), api_key="unused", max_retries=0, timeout=60) as client:
        yield client


def extension(response: Any) -> dict[str, Any]:
    found: dict[str, Any] = response.model_extra["stepagent"]
    return found


def test_response_holds_answer_usage_and_calls_when_it_is_not_streamed(client: OpenAI, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."))
    response = client.responses.create(model="assistant", input="What is 17*23?", metadata={"ticket": "7"}, store=True)
    assert (response.status, response.output_text, response.metadata) == ("completed", "It is 391.", {"ticket": "7"})
    assert response.usage
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (20, 10, 30)
    assert [item.type for item in response.output] == ["message"]
    assert [call["name"] for call in extension(response)["calls"]] == ["calculator"]


def test_stream_is_put_together_by_the_clients_own_helper(client: OpenAI, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."))
    with client.responses.stream(model="assistant", input="What is 17*23?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    types = list(dict.fromkeys(event.type for event in events))
    assert types == ["response.created", "response.in_progress", *TEXT, "response.completed"]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "It is 391."
    assert final.output_text == "It is 391."


def test_stream_is_put_together_by_the_asynchronous_helper(api: httpx.Client, model: ScriptedModel) -> None:
    async def ask() -> str:
        async with (
            AsyncOpenAI(base_url=str(api.base_url), api_key="unused") as client,
            client.responses.stream(model="assistant", input="What is 17*23?") as stream,
        ):
            return (await stream.get_final_response()).output_text

    model.script(SUM, Reply(text="It is 391."))
    assert asyncio.run(ask()) == "It is 391."


def test_answer_is_parsed_as_the_clients_own_model(client: OpenAI, model: ScriptedModel) -> None:
    class Sum(BaseModel):
        total: int

    model.script(Reply(text='{"total": 391}'))
    assert client.responses.parse(model="assistant", input="What is 17*23?", text_format=Sum).output_parsed == Sum(
        total=391
    )


def test_events_are_numbered_from_zero_without_a_gap(client: OpenAI, model: ScriptedModel) -> None:
    model.script(Reply(text="Hi there."))
    stream = client.responses.create(model="assistant", input="Hi", stream=True)
    numbers = [event.sequence_number for event in stream]
    assert numbers == list(range(len(numbers)))


def test_response_is_the_same_when_it_is_read_later(client: OpenAI, model: ScriptedModel) -> None:
    model.script(Reply(text="Let me see.", calls=SUM.calls), Reply(text="It is 391."))
    response = client.responses.create(model="assistant", input="What is 17*23?")
    assert response.output_text == "Let me see.\n\nIt is 391."
    assert client.responses.retrieve(response.id).model_dump() == response.model_dump()


def test_conversation_goes_on_from_the_previous_response(client: OpenAI, model: ScriptedModel) -> None:
    model.script(Reply(text="Hello Ann."), Reply(text="Ann."))
    first = client.responses.create(model="assistant", input="I am Ann.", instructions="Be short.")
    second = client.responses.create(model="assistant", input="Who am I?", previous_response_id=first.id)
    said = [message["content"] for message in model.requests[-1]["messages"] if message["role"] != "system"]
    assert said == ["I am Ann.", "Hello Ann.", "Who am I?"]
    assert (second.previous_response_id, extension(second)["session_id"]) == (first.id, extension(first)["session_id"])


def test_conversation_cannot_go_on_from_its_middle(client: OpenAI, model: ScriptedModel) -> None:
    model.script(Reply(text="One."), Reply(text="Two."))
    first = client.responses.create(model="assistant", input="1")
    client.responses.create(model="assistant", input="2", previous_response_id=first.id)
    with pytest.raises(openai.ConflictError, match="not the last one"):
        client.responses.create(model="assistant", input="3", previous_response_id=first.id)


def test_conversation_goes_on_once_when_the_request_comes_again(client: OpenAI, model: ScriptedModel) -> None:
    model.script(Reply(text="One."), Reply(text="Two."))
    first = client.responses.create(model="assistant", input="1")
    headers = {"Idempotency-Key": "respond-again"}
    twice = [
        client.responses.create(model="assistant", input="2", previous_response_id=first.id, extra_headers=headers)
        for _ in range(2)
    ]
    assert (twice[0].id, twice[0].output_text) == (twice[1].id, twice[1].output_text)
    assert len(model.requests) == 2


def test_response_is_incomplete_with_the_question_and_its_answer_goes_on(client: OpenAI, model: ScriptedModel) -> None:
    model.script(QUESTION, Reply(text="Blue it is."))
    waiting = client.responses.create(model="assistant", input="Paint")
    assert (waiting.status, waiting.output_text) == ("incomplete", "Which colour?")
    [question] = extension(waiting)["interactions"]
    assert question["type"] == "text"
    answered = client.responses.create(model="assistant", input="blue", previous_response_id=waiting.id)
    assert (answered.status, answered.output_text, answered.id) == ("completed", "Blue it is.", waiting.id)


def test_stream_of_a_waiting_run_ends_incomplete(client: OpenAI, model: ScriptedModel) -> None:
    model.script(QUESTION)
    last = list(client.responses.create(model="assistant", input="Paint", stream=True))[-1]
    assert last.type == "response.incomplete"
    assert last.response.output_text == "Which colour?"


@pytest.mark.parametrize("stream", [False, True])
def test_response_is_failed_with_the_reason_when_the_provider_refuses_the_key(
    client: OpenAI, model: ScriptedModel, stream: bool
) -> None:
    model.script(Fault(401, body={"error": {"message": "Incorrect key"}}))
    got: Any = client.responses.create(model="assistant", input="Hi", stream=stream)
    response = list(got)[-1].response if stream else got
    assert (response.status, response.error.code, response.output) == ("failed", "server_error", [])
    assert extension(response)["stop_reason"] == "failed"


def test_whole_conversation_can_be_sent_with_earlier_output_and_images(client: OpenAI, model: ScriptedModel) -> None:
    model.script(Reply(text="One."), Reply(text="Two."))
    first = client.responses.create(model="assistant", input="1")
    earlier: Any = [item.model_dump(exclude_none=True) for item in first.output]
    now: Any = {"role": "user", "content": [{"type": "input_text", "text": "2"}]}
    second = client.responses.create(model="assistant", input=[{"role": "user", "content": "1"}, *earlier, now])
    said = [message["content"] for message in model.requests[-1]["messages"] if message["role"] != "system"]
    assert (second.output_text, said) == ("Two.", ["1", "One.", "2"])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"background": True}, "background"),
        ({"store": False}, "store"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"previous_response_id": "resp_run_abc_1"}, "previous_response_id"),
        ({"input": []}, "input"),
        ({"input": " "}, "input"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, None),
        ({"model": "nobody"}, "model"),
        ({"temperature": 3}, "temperature"),
    ],
)
def test_response_is_refused_by_name_when_it_asks_for_what_there_is_not(
    api: httpx.Client, model: ScriptedModel, fields: dict[str, Any], param: str | None
) -> None:
    reply = api.post("/responses", json={"model": "assistant", "input": "Hi", **fields})
    assert reply.status_code in (400, 404)
    assert param is None or reply.json()["error"]["param"] == param
    assert model.requests == []


def test_neutral_fields_are_taken(client: OpenAI, model: ScriptedModel) -> None:
    model.script(Reply(text="Hi."))
    response = client.responses.create(
        model="assistant",
        input="Hi",
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
        background=False,
        truncation="disabled",
        text={"format": {"type": "text"}},
        include=[],
        user="ann",
    )
    assert response.output_text == "Hi."
