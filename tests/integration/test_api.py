"""The HTTP API as clients meet it: through the front door, the emulator's API Gateway and the functions."""

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from stepagent.api.body import MAX_BODY_BYTES
from stepagent.store.clients import dynamodb
from tests.local_loop import LocalLoop
from tests.scripted_model import Fault, Reply, ScriptedModel

SUM = Reply(calls=(("calculator", {"expression": "17*23"}),))
HELLO = [{"role": "user", "content": "What is 17*23?"}]


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "assistant", "messages": HELLO, **fields}


def items_of(loop: LocalLoop) -> int:
    """Items of the record and the journal together."""
    tables = (loop.stack.record_table, loop.stack.journal_table)
    return sum(dynamodb().scan(TableName=table, Select="COUNT")["Count"] for table in tables)


def data_of(stream: str) -> list[Any]:
    return [
        json.loads(line[6:])
        for line in stream.splitlines()
        if line.startswith("data: {") or line.startswith("data: [{")
    ]


def test_completion_holds_answer_usage_and_run_when_it_is_not_streamed(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."))
    reply = api.post("/chat/completions", json=body()).json()
    assert reply["choices"][0]["message"]["content"] == "It is 391."
    assert reply["usage"]["total_tokens"] == 30
    assert reply["stepagent"]["stop_reason"] == "answered"


def test_stream_is_whole_when_the_openai_client_reads_it(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."))
    with OpenAI(base_url=str(api.base_url), api_key="unused") as client:
        wanted = body(stream=True, stream_options={"include_usage": True})
        chunks = list(client.chat.completions.create(**wanted))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "It is 391."
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 30


def test_fifty_words_arrive_before_the_reply_is_complete_when_it_is_streamed(
    api: httpx.Client, model: ScriptedModel
) -> None:
    model.script(Reply(text="word " * 50, chunk_chars=25, delay_s_per_chunk=0.1))
    with api.stream("POST", "/chat/completions", json=body(stream=True)) as response:
        arrivals = [line for line in response.iter_lines() if '"content":"word' in line]
    assert len(arrivals) > 3


def test_detail_events_tell_of_calls_and_results_in_order(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."))
    stream = api.post("/chat/completions", json=body(stream=True, detail=True)).text
    names = [line[7:] for line in stream.splitlines() if line.startswith("event: ")]
    order = [name for name in names if name in ("toolCall", "toolParams", "toolResponse", "flowResponses")]
    assert order == ["toolCall", "toolParams", "toolResponse", "flowResponses"]
    assert stream.endswith("data: [DONE]\n\n")


def test_plain_stream_has_chunks_only(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."))
    stream = api.post("/chat/completions", json=body(stream=True)).text
    assert "event:" not in stream
    assert {data["object"] for data in data_of(stream)} == {"chat.completion.chunk"}


def test_stream_ends_with_an_error_object_when_the_provider_refuses_the_key(
    api: httpx.Client, model: ScriptedModel
) -> None:
    model.script(Fault(401, body={"error": {"message": "Incorrect key"}}))
    stream = api.post("/chat/completions", json=body(stream=True)).text
    assert data_of(stream)[-1]["error"]["code"] == "model_key_refused"
    assert stream.endswith("data: [DONE]\n\n")


def test_completion_is_502_with_the_reason_when_the_provider_refuses_the_key(
    api: httpx.Client, model: ScriptedModel
) -> None:
    model.script(Fault(401, body={"error": {"message": "Incorrect key"}}))
    reply = api.post("/chat/completions", json=body())
    assert (reply.status_code, reply.json()["error"]["code"]) == (502, "model_key_refused")


@pytest.mark.parametrize(
    ("content", "status", "param"),
    [
        (json.dumps(body(model="nobody")), 404, "model"),
        (json.dumps(body(messages=[])), 400, "messages"),
        (json.dumps(body(messages=[{"role": "user", "content": "  "}])), 400, "messages"),
        (json.dumps(body(messages=[{"role": "assistant", "content": "hi"}])), 400, "messages"),
        (json.dumps(body(messages="hello")), 400, "messages"),
        (json.dumps(body(messages=[{"role": "robot", "content": "hi"}])), 400, "messages.0.role"),
        (json.dumps(body(messages=[{"role": "user", "content": 7}])), 400, None),
        (json.dumps(body(stream="yes")), 400, "stream"),
        (json.dumps(body(temperature="hot")), 400, "temperature"),
        (json.dumps(body(n=2)), 400, "n"),
        (json.dumps(body(tools=[{"type": "function"}])), 400, "tools"),
        (json.dumps({"messages": HELLO}), 400, "model"),
        (json.dumps([1, 2]), 400, None),
        ("", 400, None),
        ("{", 400, None),
        ('{"temperature": NaN}', 400, None),
        (b"\xff\xfe", 400, None),
        (json.dumps(body(messages=[{"role": "user", "content": "x" * MAX_BODY_BYTES}])), 413, None),
    ],
)
def test_nothing_is_started_or_stored_when_a_request_is_wrong(
    api: httpx.Client, loop: LocalLoop, model: ScriptedModel, content: str | bytes, status: int, param: str | None
) -> None:
    before = items_of(loop)
    reply = api.post("/chat/completions", content=content)
    error = reply.json()["error"]
    assert (reply.status_code, set(error)) == (status, {"message", "type", "param", "code"})
    assert param is None or error["param"] == param
    assert (items_of(loop), model.requests) == (before, [])


def test_openai_client_raises_not_found_when_the_agent_does_not_exist(api: httpx.Client, model: ScriptedModel) -> None:
    client = OpenAI(base_url=str(api.base_url), api_key="unused")
    with client, pytest.raises(openai.NotFoundError, match="There is no agent 'nobody'"):
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hi"}])


def test_models_are_the_agents(api: httpx.Client) -> None:
    with OpenAI(base_url=str(api.base_url), api_key="unused") as client:
        assert "assistant" in [model.id for model in client.models.list()]


def test_models_tell_what_they_can(api: httpx.Client) -> None:
    rows = {row["id"]: row["capabilities"] for row in api.get("/models").json()["data"]}
    assert rows["assistant"]["modes"] == ["tool_choice", "prompt_call"]
    assert "calculator" in rows["assistant"]["tools"]


def test_run_can_be_read_by_the_id_that_the_reply_names(api: httpx.Client, model: ScriptedModel) -> None:
    model.script(SUM, Reply(text="It is 391."))
    run_id = api.post("/chat/completions", json=body()).json()["stepagent"]["run_id"]
    run = api.get(f"/runs/{run_id}").json()
    assert (run["status"], run["answer"], run["turns"]) == ("completed", "It is 391.", 2)


@pytest.mark.parametrize("run_id", ["run_abc_1", "nonsense", "run__1", "run_abc_x"])
def test_run_is_404_when_there_is_none(api: httpx.Client, run_id: str) -> None:
    reply = api.get(f"/runs/{run_id}")
    assert reply.status_code == 404
    assert "message" in reply.json()["error"]


def test_run_goes_on_when_its_question_is_answered_over_http(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("paint", Reply(calls=(("ask_user", {"question": "Which colour?"}),)), Reply(text="Blue it is."))
    messages = [{"role": "user", "content": "paint over http"}]
    waiting = api.post("/chat/completions", json=body(messages=messages)).json()["stepagent"]
    question = waiting["interactions"][0]["interaction_id"]
    statuses = [
        api.post(f"/interactions/{question}", json={"answer": text}).status_code for text in ("blue", "blue", "red")
    ]
    run = _ended(api, waiting["run_id"])
    assert (statuses, run["answer"]) == ([200, 200, 409], "Blue it is.")


@pytest.mark.parametrize(
    ("content", "status"), [('{"answer": ""}', 400), ("{}", 400), ('{"answer": 7}', 400), ("[]", 400), ("", 400)]
)
def test_answer_is_refused_when_its_body_is_wrong(api: httpx.Client, content: str, status: int) -> None:
    reply = api.post("/interactions/unknown", content=content)
    assert (reply.status_code, set(reply.json()["error"])) == (status, {"message", "type", "param", "code"})


def test_session_is_busy_when_its_run_still_goes_on(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("slow", Reply(text="Here.", first_delay_s=1))
    slow = body(messages=[{"role": "user", "content": "slow"}], session_id="busy")

    async def twice() -> list[int]:
        async with httpx.AsyncClient(base_url=api.base_url, timeout=30) as client:
            first = asyncio.create_task(client.post("/chat/completions", json=slow))
            await asyncio.sleep(0.5)
            second = await client.post("/chat/completions", json=slow)
            return [(await first).status_code, second.status_code]

    assert asyncio.run(twice()) == [200, 409]


def test_ten_streams_at_once_each_get_their_own_answer(api: httpx.Client, model: ScriptedModel) -> None:
    for number in range(10):
        model.script_for(f"number {number}.", SUM, Reply(text=f"answer {number}"))

    async def ask(number: int) -> str:
        async with AsyncOpenAI(base_url=str(api.base_url), api_key="unused") as client:
            stream = await client.chat.completions.create(
                model="assistant", messages=[{"role": "user", "content": f"number {number}."}], stream=True
            )
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(ask(number) for number in range(10)))

    assert asyncio.run(all_of_them()) == [f"answer {number}" for number in range(10)]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}])
def test_gateway_admits_nobody_without_a_known_key(loop: LocalLoop, headers: dict[str, str]) -> None:
    reply = httpx.get(f"{loop.stack.api_url}/models", headers=headers)
    assert reply.status_code in (401, 403)


def test_run_of_another_principal_is_404(api: httpx.Client, loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(Reply(text="Mine."))
    run_id = api.post("/chat/completions", json=body()).json()["stepagent"]["run_id"]
    reply = httpx.get(f"{loop.stack.api_url}/runs/{run_id}", headers={"Authorization": "Bearer other-key"})
    assert reply.status_code == 404


def _ended(api: httpx.Client, run_id: str) -> dict[str, Any]:
    for _ in range(200):
        run: dict[str, Any] = api.get(f"/runs/{run_id}").json()
        if run["ended_at"]:
            return run
    raise TimeoutError(run_id)
