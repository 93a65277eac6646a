"""Runs as chat completions: the bytes that an OpenAI client reads."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest

from stepagent.api import chat as subject
from stepagent.api import follow as following
from stepagent.api import service
from stepagent.api.chat import Transcript, stream_chat, whole_chat
from stepagent.api.requests import ChatRequest, read_chat_request
from stepagent.api.service import Following, say
from stepagent.catalog import FoundAgent
from stepagent.errors import Conflict, RecordConflict
from stepagent.messages import Message
from stepagent.runs import Failure, Principal, Run, RunId, RunStatus, SessionKey, StopReason
from stepagent.store.idempotency import IdempotencyKey
from stepagent.store.journal import Event
from stepagent.store.runs import Session
from stepagent.usage import Usage
from tests.builders import NOON, OWNER, a_run

Json = dict[str, Any]
Serve = Callable[..., Run]

TURN = ("turn.started", {"turn": 1, "attempt": 1})
REPLIED = ("message.completed", {"turn": 1, "calls": []})
TOOL = ("tool.started", {"id": "a", "name": "search", "arguments": '{"q":"x"}'})
TOOL_DONE = ("tool.completed", {"id": "a", "name": "search", "text": "found", "is_error": False})
ASKED = ("interaction.required", {"call_id": "b", "interaction_id": "q1", "description": "Which?", "type": "text"})
ENDED = ("run.completed", {"stop_reason": "answered"})


def text(fragment: str) -> tuple[str, Json]:
    return "message.delta", {"text": fragment}


def calls(*ids: str) -> tuple[str, Json]:
    return "message.completed", {"turn": 1, "calls": [{"id": id_, "name": "search"} for id_ in ids]}


class Sent(NamedTuple):
    """One server-sent event; `data` is parsed, or the text where it is no JSON."""

    name: str
    data: Any


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Makes a run with these events, and with this record of how it stands at the end."""

    def make(*events: tuple[str, Json], **changes: Any) -> Run:
        log = [Event(n, type_, "", data) for n, (type_, data) in enumerate(events, 1)]
        usual: dict[str, Any] = {"status": RunStatus.COMPLETED, "stop_reason": StopReason.ANSWERED, "turns": 1}
        stands = a_run(**usual | changes)
        monkeypatch.setattr(following, "read_events", lambda run_id, after: [event for event in log if event.n > after])
        monkeypatch.setattr(subject, "read_run", lambda run_id, principal: stands)
        return a_run()

    return make


def request_for(**changes: Any) -> ChatRequest:
    body = {"model": "helper", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    return read_chat_request(json.dumps(body | changes).encode())


def streamed(run: Run, **changes: Any) -> list[Sent]:
    async def collect(parts: AsyncIterator[bytes]) -> bytes:
        return b"".join([part async for part in parts])

    content = asyncio.run(asyncio.wait_for(collect(stream_chat(request_for(**changes), Following(run, 0))), 2))
    return [sent(block) for block in content.decode().strip().split("\n\n") if not block.startswith(":")]


def sent(block: str) -> Sent:
    lines = dict(line.split(": ", 1) for line in block.split("\n"))
    data = lines["data"]
    return Sent(lines.get("event", ""), json.loads(data) if data.startswith(("{", "[{")) else data)


def whole(run: Run) -> Json:
    return asyncio.run(asyncio.wait_for(whole_chat(Following(run, 0)), 2))


def deltas(events: list[Sent]) -> list[Json]:
    return [
        event.data["choices"][0]["delta"] for event in events if event.data != "[DONE]" and event.data.get("choices")
    ]


ENDINGS: list[tuple[list[tuple[str, Json]], Json]] = [
    ([TURN, text("Hi"), REPLIED, ENDED], {}),
    ([TURN, ("run.failed", {})], {"status": RunStatus.FAILED, "failure": Failure(code="model_busy", message="Busy.")}),
    ([TURN, ("run.cancelled", {})], {"status": RunStatus.CANCELLED}),
    ([TURN, calls("b"), ASKED], {"status": RunStatus.WAITING, "pending": ["q1"]}),
]


@pytest.mark.parametrize("detail", [False, True])
@pytest.mark.parametrize(("events", "stands"), ENDINGS)
def test_stream_is_closed_by_done_however_the_run_ends(
    serve: Serve, events: list[tuple[str, Json]], stands: Json, detail: bool
) -> None:
    sents = streamed(serve(*events, **stands), detail=detail)
    assert [event.data for event in sents].count("[DONE]") == 1
    assert sents[-1] == Sent("", "[DONE]")


def test_chunks_are_of_one_completion_when_a_run_is_streamed(serve: Serve) -> None:
    sents = streamed(serve(TURN, text("A"), text("B"), REPLIED, ENDED), stream_options={"include_usage": True})
    chunks = [event.data for event in sents[:-1]]
    heads = {(c["id"], c["object"], c["created"], c["model"]) for c in chunks}
    assert heads == {("chatcmpl-run_abc_1", "chat.completion.chunk", int(NOON.timestamp()), "helper")}


def test_role_stands_in_the_first_delta_alone_when_a_run_is_streamed(serve: Serve) -> None:
    found = deltas(streamed(serve(TURN, text("A"), text("B"), REPLIED, ENDED)))
    assert [delta.get("role") for delta in found] == ["assistant", *[None] * (len(found) - 1)]


def test_deltas_make_the_text_when_they_are_joined(serve: Serve) -> None:
    found = deltas(streamed(serve(TURN, text("A\n\n"), text("b\u2028\U0001f600"), REPLIED, ENDED)))
    assert "".join(delta.get("content") or "" for delta in found) == "A\n\nb\u2028\U0001f600"


def test_finish_reason_comes_once_and_last_when_a_run_is_streamed(serve: Serve) -> None:
    sents = streamed(serve(TURN, text("A"), REPLIED, ENDED))
    assert [event.data["choices"][0]["finish_reason"] for event in sents[:-1]] == [None, None, "stop"]


@pytest.mark.parametrize(
    ("options", "counted"), [(None, 0), ({"include_usage": False}, 0), ({"include_usage": True}, 1)]
)
def test_usage_is_sent_once_and_before_done_only_when_it_is_asked_for(
    serve: Serve, options: Json | None, counted: int
) -> None:
    run = serve(TURN, text("A"), REPLIED, ENDED, usage=Usage(input_tokens=7, output_tokens=3))
    sents = streamed(run, stream_options=options)
    usages = [event.data["usage"] for event in sents[:-1] if "usage" in event.data]
    assert [usage["total_tokens"] for usage in usages] == [10] * counted
    assert [event.data["choices"] for event in sents[:-1]].count([]) == counted


def test_plain_stream_holds_nothing_but_chunks_when_no_detail_is_wanted(serve: Serve) -> None:
    sents = streamed(serve(TURN, calls("a"), TOOL, TOOL_DONE, TURN, text("A"), REPLIED, ENDED))
    assert {event.name for event in sents} == {""}
    assert {event.data["object"] for event in sents[:-1]} == {"chat.completion.chunk"}


def test_detail_events_come_in_the_order_of_the_run_when_they_are_wanted(serve: Serve) -> None:
    sents = streamed(serve(TURN, calls("a"), TOOL, TOOL_DONE, TURN, text("A"), REPLIED, ENDED), detail=True)
    assert [event.name for event in sents] == [
        "answer",
        "flowNodeStatus",
        "toolCall",
        "toolParams",
        "toolResponse",
        "flowNodeStatus",
        "answer",
        "flowResponses",
        "answer",
        "",
    ]


def test_tool_events_carry_the_calls_id_when_detail_is_wanted(serve: Serve) -> None:
    sents = streamed(serve(TURN, calls("a"), TOOL, TOOL_DONE, REPLIED, ENDED), detail=True)
    tools = {event.name: event.data["tool"] for event in sents if event.name.startswith("tool")}
    assert {tool["id"] for tool in tools.values()} == {"a"}
    assert (tools["toolParams"]["params"], tools["toolResponse"]["response"]) == ('{"q":"x"}', "found")


def test_tool_call_is_announced_before_its_response_when_it_was_never_run(serve: Serve) -> None:
    sents = streamed(serve(TURN, calls("a"), TOOL_DONE, REPLIED, ENDED), detail=True)
    assert [event.name for event in sents if event.name.startswith("tool")] == [
        "toolCall",
        "toolResponse",
    ]


def test_flow_responses_come_before_done_when_the_run_failed(serve: Serve) -> None:
    events, stands = ENDINGS[1]
    assert [event.name for event in streamed(serve(*events, **stands), detail=True)][-3:] == [
        "flowResponses",
        "error",
        "",
    ]


def test_error_object_is_streamed_when_the_run_failed(serve: Serve) -> None:
    events, stands = ENDINGS[1]
    error = streamed(serve(*events, **stands))[-2].data["error"]
    assert (error["message"], error["code"]) == ("Busy.", "model_busy")


def test_stream_ends_with_the_question_when_the_run_waits_for_a_person(serve: Serve) -> None:
    events, stands = ENDINGS[3]
    last = streamed(serve(*events, **stands))[-2].data
    assert last["stepagent"]["status"] == "waiting"
    assert [question["interaction_id"] for question in last["stepagent"]["interactions"]] == ["q1"]


def test_ordinary_calls_are_awaited_when_another_call_of_the_turn_asks(serve: Serve) -> None:
    run = serve(TURN, calls("a", "b"), TOOL, ASKED, TOOL_DONE, status=RunStatus.WAITING, pending=["q1"])
    names = [event.name for event in streamed(run, detail=True)]
    assert names.index("interactive") < names.index("toolResponse")


def test_completion_holds_text_reasoning_and_usage_when_it_is_not_streamed(serve: Serve) -> None:
    thought = ("message.delta", {"reasoning": "hm"})
    body = whole(
        serve(TURN, thought, text("A"), text("B"), REPLIED, ENDED, usage=Usage(input_tokens=7, output_tokens=3))
    )
    message = body["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("AB", "hm")
    assert (body["usage"]["total_tokens"], body["stepagent"]["interactions"]) == (10, [])


def test_completion_has_no_choice_and_names_the_run_when_it_takes_longer_than_a_silent_request_may(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "_SILENT_S", 0.01)
    body = whole(serve(TURN, text("A"), status=RunStatus.RUNNING, stop_reason=None))
    assert (body["object"], body["choices"], body["stepagent"]["status"]) == ("chat.completion", [], "running")
    assert body["stepagent"]["run_id"] in body["stepagent"]["message"]


def test_silent_request_ends_before_the_gateway_ends_it() -> None:
    assert subject._SILENT_S < 300 - 15  # and the run must begin inside that time


@pytest.mark.parametrize(
    ("ending", "kind"), [(ENDINGS[1], "run_failed"), (ENDINGS[2], "run_cancelled")], ids=["failed", "cancelled"]
)
def test_completion_is_an_error_object_when_the_run_did_not_complete(
    serve: Serve, ending: tuple[list[tuple[str, Json]], Json], kind: str
) -> None:
    events, stands = ending
    body = whole(serve(*events, **stands))
    assert ("choices" in body, body["error"]["type"]) == (False, kind)


def test_completion_says_the_question_when_the_run_waits(serve: Serve) -> None:
    events, stands = ENDINGS[3]
    body = whole(serve(*events, **stands))
    assert body["choices"][0]["message"]["content"] == "Which?"
    assert len(body["stepagent"]["interactions"]) == 1


def transcript_of(*events: tuple[str, Json]) -> Transcript:
    transcript = Transcript()
    for n, (type_, data) in enumerate(events, 1):
        transcript.add(Event(n, type_, "", data))
    return transcript


def test_texts_of_two_turns_stand_apart_when_both_say_something() -> None:
    assert transcript_of(TURN, text("Let me "), text("look."), TURN, text("It "), text("is 4.")).text == (
        "Let me look.\n\nIt is 4."
    )


def test_nothing_stands_before_the_text_when_the_turns_before_said_nothing() -> None:
    assert transcript_of(TURN, TOOL, TURN, text("4")).text == "4"


def test_question_stands_apart_when_something_was_said_before_it() -> None:
    assert transcript_of(TURN, text("Well."), ASKED).text == "Well.\n\nWhich?"


def test_session_is_busy_when_another_request_took_it_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> FoundAgent:
        return FoundAgent(a_run().agent, a_run().tools, {})

    def beaten(run: Run, messages: list[Message], key: IdempotencyKey | None) -> None:
        raise RecordConflict("taken")

    def idle(session: SessionKey) -> Session:
        return Session(0, None)

    def started(run_id: RunId) -> None:
        raise AssertionError("a run that is not recorded must not start")

    monkeypatch.setattr(service, "find_agent", found)
    monkeypatch.setattr(service, "load_session", idle)
    monkeypatch.setattr(service, "create_run", beaten)
    monkeypatch.setattr(service, "start_execution", started)
    with pytest.raises(Conflict) as refused:
        say(request_for(session_id="s"), Principal(OWNER))
    assert (refused.value.http_status, refused.value.error_code) == (409, "session_busy")
