"""The scripted model, asked by the real client."""

import json
import threading
import time
from collections.abc import Iterator

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.scripted_model import Body, Fault, Raw, Reply, ScriptedModel, calculate_then_answer

CALL = ("calculator", {"expression": "17*23"})


@pytest.fixture(scope="module")
def client(endless_model: ScriptedModel) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=endless_model.base_url, api_key="none", max_retries=0, timeout=0.4) as opened:
        yield opened


def ask(client: openai.OpenAI, text: str = "17*23?") -> ChatCompletion:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


def stream(client: openai.OpenAI, usage: bool = False) -> Iterator[ChatCompletionChunk]:
    options: openai.types.chat.ChatCompletionStreamOptionsParam = {"include_usage": usage}
    yield from client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "17*23?"}], stream=True, stream_options=options
    )


def test_completion_has_text_reasoning_and_usage(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(text="391", reasoning="easy", usage=(7, 2)))
    got = ask(client)
    assert got.usage
    assert (got.choices[0].message.content, got.choices[0].finish_reason, got.usage.total_tokens) == ("391", "stop", 9)
    assert got.choices[0].message.model_dump()["reasoning_content"] == "easy"


def test_completion_has_every_call(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(calls=(CALL, ("clock", "{not json"))))
    choice = ask(client).choices[0].model_dump()
    calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in choice["message"]["tool_calls"]]
    assert calls == [("call_1_0", "calculator", '{"expression": "17*23"}'), ("call_1_1", "clock", "{not json")]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")


def test_stream_cuts_text_and_reasoning_into_chunks(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(text="It is 391.", reasoning="easy", chunk_chars=3))
    deltas = [chunk.choices[0].delta.model_dump() for chunk in stream(client)]
    assert [d["content"] for d in deltas if d["content"]] == ["It ", "is ", "391", "."]
    assert [d["reasoning_content"] for d in deltas if "reasoning_content" in d] == ["eas", "y"]


def test_stream_cuts_arguments_of_parallel_calls(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(calls=(CALL, ("clock", {})), chunk_chars=4))
    *chunks, last = stream(client)
    pieces = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    said = {i: "".join(p.function.arguments or "" for p in pieces if p.function and p.index == i) for i in (0, 1)}
    assert said == {0: '{"expression": "17*23"}', 1: "{}"}
    assert [p.id for p in pieces if p.id] == ["call_1_0", "call_1_1"]
    assert (len(pieces), last.choices[0].finish_reason) == (9, "tool_calls")


def test_stream_ends_with_usage_when_asked(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(text="391", usage=(7, 2)), Reply(text="391"))
    with_usage, without = list(stream(client, usage=True)), list(stream(client))
    assert [chunk.usage.prompt_tokens for chunk in with_usage if chunk.usage] == [7]
    assert not any(chunk.usage for chunk in without)


def test_functions_mode_sends_legacy_function_call(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(*[Reply(calls=(CALL,), mode="functions", chunk_chars=5)] * 2)
    *chunks, last = stream(client)
    calls = [chunk.choices[0].delta.function_call for chunk in chunks]
    assert "".join(call.arguments or "" for call in calls if call) == '{"expression": "17*23"}'
    assert [call.name for call in calls if call and call.name] == ["calculator"]
    assert last.choices[0].finish_reason == "function_call"
    whole = ask(client).choices[0].message
    assert whole.function_call
    assert json.loads(whole.function_call.arguments) == {"expression": "17*23"}


def test_cut_breaks_the_connection_after_the_chunks(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(text="abcdef", chunk_chars=1, cut_after_chunks=3))
    got: list[str | None] = []
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection"):
        got.extend(chunk.choices[0].delta.content for chunk in stream(client))
    assert got == ["", "a", "b"]


def test_cut_after_the_last_chunk_withholds_done(model: ScriptedModel) -> None:
    model.script(Raw(chunks=({"id": "1"},), cut_after_chunks=1))
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{model.base_url}/chat/completions", json={"messages": [], "stream": True})


def test_stall_sends_only_comments(model: ScriptedModel) -> None:
    model.script(Reply(text="abc", chunk_chars=1, stall_after_chunks=2))
    body = {"messages": [], "stream": True}
    with httpx.stream("POST", f"{model.base_url}/chat/completions", json=body, timeout=1) as response:
        lines = (line for line in response.iter_lines() if line)
        kinds = [next(lines)[:5] for _ in range(4)]
    assert kinds == ["data:", "data:", ": sta", ": sta"]


def test_delays_hold_back_chunks(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(text="ab", chunk_chars=1, first_delay_s=0.05, delay_s_per_chunk=0.02))
    start = time.perf_counter()
    arrivals = [time.perf_counter() - start for _ in stream(client)]
    assert arrivals[0] > 0.06
    assert arrivals[3] > 0.12


def test_reply_comes_without_delay_of_its_own(model: ScriptedModel) -> None:
    model.default = Reply(text="x" * 50, chunk_chars=1)
    body = {"messages": [], "stream": True}
    took: list[float] = []
    with httpx.Client() as kept_alive:
        for _ in range(9):
            start = time.perf_counter()
            kept_alive.post(f"{model.base_url}/chat/completions", json=body)
            took.append(time.perf_counter() - start)
    assert min(took) < 0.035  # Nagle's algorithm would make each 40 ms


def test_fault_is_the_error_the_client_knows(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Fault(429, {"Retry-After": "1"}), Fault(status=502, body="<html>Bad Gateway</html>"))
    with pytest.raises(openai.RateLimitError) as busy:
        ask(client)
    with pytest.raises(openai.InternalServerError, match="502") as broken:
        ask(client)
    assert busy.value.response.headers["retry-after"] == "1"
    assert broken.value.response.headers["content-type"].startswith("text/html")
    assert "Bad Gateway" in broken.value.response.text


def test_raw_sends_literal_chunks(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Raw(chunks=({"id": "a", "choices": []}, {"id": "b", "choices": []}), done=False))
    assert [chunk.id for chunk in stream(client)] == ["a", "b"]


def test_body_becomes_one_chunk_a_choice_when_streamed(model: ScriptedModel, client: openai.OpenAI) -> None:
    call = {"id": "x", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = Body({"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    model.script(body, body)
    (chunk,) = stream(client)
    assert [call.index for call in chunk.choices[0].delta.tool_calls or []] == [0]
    assert ask(client).choices[0].finish_reason == "tool_calls"


@pytest.mark.usefixtures("model")
def test_exhausted_script_is_a_clear_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="script exhausted"):
        ask(client)


def test_default_answers_beyond_the_script(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(text="first"))
    model.default = lambda request: Reply(text=f"again {request['model']}")
    assert [ask(client).choices[0].message.content for _ in range(3)] == ["first", "again m", "again m"]


def test_concurrent_runs_keep_their_own_replies(model: ScriptedModel, client: openai.OpenAI) -> None:
    keys = [f"run-{number}." for number in range(6)]
    for key in keys:
        model.script_for(key, Reply(text=f"{key} 1"), Reply(text=f"{key} 2"))
    got: dict[str, list[str | None]] = {}

    def run(key: str) -> None:
        got[key] = [ask(client, f"please {key}").choices[0].message.content for _ in range(2)]

    threads = [threading.Thread(target=run, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {key: [f"{key} 1", f"{key} 2"] for key in keys}


def test_requests_are_kept_until_reset(model: ScriptedModel, client: openai.OpenAI) -> None:
    model.script(Reply(text="hi"))
    ask(client, "hello")
    assert model.requests == [{"model": "m", "messages": [{"role": "user", "content": "hello"}]}]
    model.reset()
    assert model.requests == []


def test_calculate_then_answer_counts_the_calls_of_the_last_question() -> None:
    step = calculate_then_answer(1)
    assert callable(step)
    user, tool = {"role": "user"}, {"role": "tool"}
    histories = [[user], [user, tool], [user, tool, user], [user, tool, user, tool]]
    answers = [step({"messages": history}) for history in histories]
    assert [bool(a.calls) for a in answers if isinstance(a, Reply)] == [True, False, True, False]


def test_stop_ends_open_streams_quickly() -> None:
    stalled = ScriptedModel(Reply(text="abc", stall_after_chunks=1)).start()
    with httpx.stream("POST", f"{stalled.base_url}/chat/completions", json={"messages": [], "stream": True}) as open_:
        next(open_.iter_lines())
        start = time.perf_counter()
        stalled.stop()
    assert time.perf_counter() - start < 1
