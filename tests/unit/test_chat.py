"""Runs as chat completions: the bytes that an OpenAI client reads."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from stepagent.api import beginning
from stepagent.api import chat as subject
from stepagent.api import follow as following
from stepagent.api.beginning import Following
from stepagent.api.chat import Transcript, stream_chat, whole_chat
from stepagent.api.requests import ChatRequest, read_chat_request
from stepagent.api.service import say
from stepagent.api.shapes import KEEP_ALIVE
from stepagent.api.streams import KEEP_ALIVE_S, kept_alive
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


PLANNED = [
    ("strategy.chosen", {"strategy": "plan", "why": "It has parts."}),
    ("plan.created", {"plan": {"revision": 1, "steps": [{"id": "a", "title": "Look"}]}}),
    ("step.started", {"id": "a", "title": "Look", "attempt": 1, "run_id": "run_x_1", "call_id": "c"}),
    ("step.completed", {"id": "a", "title": "Look", "status": "done", "text": "Seen.", "call_id": "c"}),
    ("plan.updated", {"plan": {"revision": 2, "steps": []}, "why": "Why not."}),
]


def test_events_of_a_plan_are_told_as_they_are_when_detail_is_wanted(serve: Serve) -> None:
    sents = streamed(serve(*PLANNED, text("A"), REPLIED, ENDED), detail=True)
    assert [(event.name, event.data) for event in sents[1:6]] == PLANNED


def test_nothing_of_a_plan_is_in_the_stream_when_no_detail_is_wanted(serve: Serve) -> None:
    sents = streamed(serve(*PLANNED, text("A"), REPLIED, ENDED))
    assert ({event.name for event in sents}, "Look" in str(sents)) == ({""}, False)


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
    monkeypatch.setattr(subject, "SILENT_S", 0.01)
    body = whole(serve(TURN, text("A"), status=RunStatus.RUNNING, stop_reason=None))
    assert (body["object"], body["choices"], body["stepagent"]["status"]) == ("chat.completion", [], "running")
    assert body["stepagent"]["run_id"] in body["stepagent"]["message"]


def test_silent_request_ends_before_the_gateway_ends_it() -> None:
    assert following.SILENT_S < 300 - 15  # and the run must begin inside that time


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


@pytest.mark.parametrize("stream", [False, True])
def test_reply_holds_the_first_questions_when_they_are_too_much_for_an_answer(serve: Serve, stream: bool) -> None:
    ids = [f"q{number}" for number in range(10)]
    asked = [(ASKED[0], {**ASKED[1], "interaction_id": id_, "options": ["x" * 700_000]}) for id_ in reversed(ids)]
    run = serve(TURN, calls("b"), *asked, status=RunStatus.WAITING, pending=ids)
    body = streamed(run)[-2].data if stream else whole(run)
    shown = [question["interaction_id"] for question in body["stepagent"]["interactions"]]
    assert shown == ids[: len(shown)]
    assert 1 < len(shown) < len(ids)
    assert len(json.dumps(json.dumps(body))) < 6 * 1024 * 1024


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

    monkeypatch.setattr(beginning, "find_agent", found)
    monkeypatch.setattr(beginning, "load_session", idle)
    monkeypatch.setattr(beginning, "create_run", beaten)
    monkeypatch.setattr(beginning, "start_execution", started)
    with pytest.raises(Conflict) as refused:
        say(request_for(session_id="s"), Principal(OWNER))
    assert (refused.value.http_status, refused.value.error_code) == (409, "session_busy")


FILTERED: Json = {"status": RunStatus.FAILED, "failure": Failure(code="content_filter", message="Filtered.")}


def test_finish_reason_is_content_filter_when_the_providers_filter_stopped_the_run(serve: Serve) -> None:
    sents = streamed(serve(TURN, text("A"), ("run.failed", {}), **FILTERED))
    assert sents[-2].data["choices"][0]["finish_reason"] == "content_filter"


def test_completion_has_what_was_said_when_the_providers_filter_stopped_the_run(serve: Serve) -> None:
    [choice] = whole(serve(TURN, text("A"), ("run.failed", {}), **FILTERED))["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("A", "content_filter")


REFUSED = ("message.delta", {"refusal": "I cannot."})


def test_refusal_stands_in_the_place_of_content_when_the_model_refused(serve: Serve) -> None:
    [choice] = whole(serve(TURN, REFUSED, ENDED, stop_reason=StopReason.REFUSED))["choices"]
    assert (choice["message"]["content"], choice["message"]["refusal"]) == (None, "I cannot.")
    assert choice["finish_reason"] == "stop"


def test_refusal_is_a_delta_of_its_own_when_it_is_streamed(serve: Serve) -> None:
    found = deltas(streamed(serve(TURN, REFUSED, ENDED, stop_reason=StopReason.REFUSED)))
    assert [delta["refusal"] for delta in found if "refusal" in delta] == ["I cannot."]
    assert all(not delta.get("content") for delta in found)


@pytest.mark.parametrize(("cost", "shown"), [(Decimal("0.25"), 0.25), (None, None)])
def test_cost_is_told_with_the_end_when_it_is_known(serve: Serve, cost: Decimal | None, shown: float | None) -> None:
    sents = streamed(serve(TURN, text("A"), ENDED, usage=Usage(cost_usd=cost)))
    assert sents[-2].data["stepagent"]["cost_usd"] == shown


@pytest.mark.parametrize("place", [0, -2])
def test_ignored_fields_are_told_at_both_ends_when_nobody_knows_them(serve: Serve, place: int) -> None:
    assert streamed(serve(TURN, text("A"), ENDED), unknown=1)[place].data["stepagent"]["ignored"] == ["unknown"]


def test_nothing_is_told_of_ignored_fields_when_there_are_none(serve: Serve) -> None:
    assert "ignored" not in streamed(serve(TURN, text("A"), ENDED))[-2].data["stepagent"]


def test_running_time_is_told_with_details_when_the_run_ended(serve: Serve) -> None:
    run = serve(TURN, ENDED, ended_at=NOON + timedelta(seconds=2.5))
    [flow] = [event.data for event in streamed(run, detail=True) if event.name == "flowResponses"]
    assert flow[0]["runningTime"] == 2.5


@pytest.mark.parametrize("detail", [False, True])
def test_stream_ends_with_an_error_and_done_when_it_breaks(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, detail: bool
) -> None:
    def lost(run_id: RunId, after: int) -> list[Event]:
        raise OSError("no table")

    run = serve()
    monkeypatch.setattr(following, "read_events", lost)
    *_, error, done = streamed(run, detail=detail)
    assert (error.name, error.data["error"]["code"], done.data) == ("error" if detail else "", "stream_broke", "[DONE]")
    assert ("message" in error.data) == detail


def test_first_bytes_come_before_the_runs_first_event(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    run = serve()
    monkeypatch.setattr(following, "read_events", lambda run_id, after: [])

    async def first() -> bytes:
        return await asyncio.wait_for(anext(aiter(stream_chat(request_for(), Following(run, 0)))), 1)

    assert b'"role":"assistant"' in asyncio.run(first())


def test_comments_keep_a_stream_alive_when_nothing_of_its_run_is_shown() -> None:
    async def silent() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(0.05)
        yield b"b"

    async def collect() -> list[bytes]:
        return [part async for part in kept_alive(silent(), every_s=0.01)]

    parts = asyncio.run(collect())
    assert (parts[0], parts[-1], set(parts[1:-1])) == (b"a", b"b", {KEEP_ALIVE})


def test_stream_ends_its_source_when_the_client_goes_away() -> None:
    ended: list[bool] = []

    async def source() -> AsyncIterator[bytes]:
        try:
            yield b"a"
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def leave() -> None:
        parts = kept_alive(source(), every_s=0.01)
        for _ in range(3):
            await anext(parts)
        await parts.aclose()  # type: ignore[attr-defined]  # it is a generator
        await asyncio.sleep(0)

    asyncio.run(leave())
    assert ended == [True]


def test_keep_alive_comes_every_fifteen_seconds() -> None:
    assert KEEP_ALIVE_S == 15
