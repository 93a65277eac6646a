"""OpenAI's own clients on the real loop: a conversation with a tool call, a question to the person, and the answer.

Whichever client and way of reading, the person sees the same and the model is told the same.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, InternalServerError, OpenAI

from tests.scripted_model import Reply, ScriptedModel
from tests.sdk import FOLDER, node_modules, run_node

Said = tuple[str | None, str | None, int | None]  # a text, why it ended, and the tokens of its run

REQUEST = "Paint 17*23 walls"
CALL = Reply(calls=(("calculator", {"expression": "17*23"}),))
QUESTION = Reply(calls=(("ask_user", {"question": "Which colour?"}),))
ANSWER = Reply(text="391 walls in blue.")
# The question pauses the run, so its tokens are counted on: two model calls of 15 before it, one more behind it.
CHAT = [("Which colour?", "stop", 30), ("391 walls in blue.", "stop", 45)]
RESPONSES = [("Which colour?", "incomplete", 30), ("391 walls in blue.", "completed", 45)]


@pytest.fixture(autouse=True)
def script(model: ScriptedModel) -> None:
    model.script(CALL, QUESTION, ANSWER)


def fields(said: str, session: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": said}]
    return {"model": "assistant", "messages": messages, "extra_body": {"session_id": session}}


def say_whole(client: OpenAI, said: str, session: str) -> Said:
    reply = client.chat.completions.create(**fields(said, session))
    return reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.total_tokens


def say_in_chunks(client: OpenAI, said: str, session: str) -> Said:
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(**fields(said, session), **options))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    return text, choices[-1].finish_reason, chunks[-1].usage.total_tokens


def say_by_helper(client: OpenAI, said: str, session: str) -> Said:
    usage: Any = {"include_usage": True}
    with client.chat.completions.stream(**fields(said, session), stream_options=usage) as stream:
        reply: Any = stream.get_final_completion()
    return reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.total_tokens


async def await_whole(client: AsyncOpenAI, said: str, session: str) -> Said:
    reply = await client.chat.completions.create(**fields(said, session))
    return reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.total_tokens


async def await_helper(client: AsyncOpenAI, said: str, session: str) -> Said:
    usage: Any = {"include_usage": True}
    async with client.chat.completions.stream(**fields(said, session), stream_options=usage) as stream:
        reply: Any = await stream.get_final_completion()
    return reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.total_tokens


@pytest.mark.parametrize("say", [say_whole, say_in_chunks, say_by_helper])
def test_python_client_asks_and_answers(
    api: httpx.Client, model: ScriptedModel, say: Callable[[OpenAI, str, str], Said]
) -> None:
    with OpenAI(base_url=str(api.base_url), api_key="unused", max_retries=0, timeout=60) as client:
        said = [say(client, REQUEST, say.__name__), say(client, "blue", say.__name__)]
    assert said == CHAT
    assert told(model) == ["391", "blue"]


@pytest.mark.parametrize("say", [await_whole, await_helper])
def test_asynchronous_python_client_asks_and_answers(
    api: httpx.Client, model: ScriptedModel, say: Callable[[AsyncOpenAI, str, str], Awaitable[Said]]
) -> None:
    async def talk() -> list[Said]:
        async with AsyncOpenAI(base_url=str(api.base_url), api_key="unused", max_retries=0, timeout=60) as client:
            return [await say(client, REQUEST, say.__name__), await say(client, "blue", say.__name__)]

    assert asyncio.run(talk()) == CHAT
    assert told(model) == ["391", "blue"]


def test_client_begins_one_run_when_that_fails_however_often_it_would_try(
    api: httpx.Client, model: ScriptedModel
) -> None:
    model.reset()
    model.default = Reply(text="This is no JSON.")
    form: Any = {"type": "json_object"}
    with (
        OpenAI(base_url=str(api.base_url), api_key="unused", max_retries=2, timeout=60) as client,
        pytest.raises(InternalServerError),
    ):
        client.chat.completions.create(**fields("Hi", "fails"), response_format=form)
    assert len(api.get("/runs", params={"session_id": "fails"}).json()["data"]) == 1


def test_client_reads_an_agent_as_a_model(api: httpx.Client) -> None:
    with OpenAI(base_url=str(api.base_url), api_key="unused", max_retries=0, timeout=60) as client:
        assert client.models.retrieve("assistant").id == "assistant"


@pytest.mark.skipif(node_modules("openai") is None, reason="there is no openai for node: make test installs it")
@pytest.mark.parametrize(
    ("way", "expected"), [("whole", CHAT), ("chunks", CHAT), ("helper", CHAT), ("responses", RESPONSES)]
)
def test_node_client_asks_and_answers(api: httpx.Client, model: ScriptedModel, way: str, expected: list[Said]) -> None:
    code = (FOLDER / "conversation.mjs").read_text()
    printed = run_node(code, str(api.base_url).rstrip("/"), f"node-{way}", way)
    assert [tuple(said) for said in json.loads(printed)] == expected
    assert told(model) == ["391", "blue"]


def told(model: ScriptedModel) -> list[str]:
    """The results of calls that the model has read in its last request."""
    return [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
