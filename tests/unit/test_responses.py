"""Runs as responses: requests, shapes and the order of a stream's events, over a journal in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from openai.types.responses import response_create_params

from stepagent.api import follow as following
from stepagent.api import responses as subject
from stepagent.api.beginning import Following
from stepagent.api.responses import show_response, stream_response, whole_response
from stepagent.api.responses_requests import ResponseRequest, read_response_request
from stepagent.errors import InvalidRequest, NotFound
from stepagent.runs import Failure, Run, RunStatus, StopReason
from stepagent.store.journal import Event
from stepagent.usage import Usage
from tests.builders import OWNER, RUN_ID, a_run

Json = dict[str, Any]

TURN = ("turn.started", {"turn": 1, "attempt": 1})
SAID = ("message.delta", {"text": "Hi"})
CALLED = ("message.completed", {"turn": 1, "calls": [{"id": "a", "name": "search"}]})
CALL_DONE = ("tool.completed", {"id": "a", "name": "search", "text": "found", "is_error": False})
ASKED = ("interaction.required", {"call_id": "a", "interaction_id": "q1", "description": "Which?", "type": "text"})
REFUSED = ("message.delta", {"refusal": "I may not."})
BUSY = Failure(code="model_busy", message="Busy.")
MESSAGE_OPENED = ["response.output_item.added", "response.content_part.added"]
MESSAGE_DONE = ["response.output_text.done", "response.content_part.done", "response.output_item.done"]

# How a run comes to rest: its events, its record, the response's status, and the stream's last event.
ENDINGS: dict[str, tuple[list[tuple[str, Json]], Json, str, str]] = {
    "completed": ([TURN, SAID, ("run.completed", {})], {"status": "completed"}, "completed", "response.completed"),
    "cut short": (
        [TURN, SAID, ("run.completed", {})],
        {"status": "completed", "stop_reason": StopReason.OUTPUT_LIMIT},
        *("incomplete", "response.incomplete"),
    ),
    "waiting": ([TURN, CALLED, ASKED], {"status": "waiting", "pending": ["q1"]}, "incomplete", "response.incomplete"),
    "failed": (
        [TURN, SAID, ("run.failed", {})],
        {"status": "failed", "failure": BUSY},
        *("failed", "response.failed"),
    ),
    "filtered": (
        [TURN, SAID, ("run.failed", {})],
        {"status": "failed", "failure": Failure(code="content_filter", message="Filtered.")},
        *("incomplete", "response.incomplete"),
    ),
    "failed in silence": ([TURN, ("run.failed", {})], {"status": "failed"}, "failed", "response.failed"),
    "cancelled": ([TURN, ("run.cancelled", {})], {"status": "cancelled"}, "cancelled", "response.failed"),
}


def serve(monkeypatch: pytest.MonkeyPatch, events: list[tuple[str, Json]], **stands: Any) -> Following:
    """A run with these events, which stands so at their end."""
    log = [Event(n, type_, "", data) for n, (type_, data) in enumerate(events, 1)]
    run = a_run(**stands)

    def read(run_id: str, principal: str) -> Run:
        if run_id != run.run_id:
            raise NotFound("There is none.")
        return run

    for module in (following, subject):
        monkeypatch.setattr(module, "read_events", lambda run_id, after: [event for event in log if event.n > after])
    monkeypatch.setattr(subject, "read_run", read)
    return Following(a_run(), 0)


def streamed(run: Following, ignored: Sequence[str] = ()) -> list[Json]:
    async def collect(parts: AsyncIterator[bytes]) -> list[bytes]:
        return [part async for part in parts]

    blocks = asyncio.run(asyncio.wait_for(collect(stream_response(run, ignored)), 2))
    lines = [block.decode().strip().split("\n") for block in blocks]
    events: list[Json] = [json.loads(line[1].removeprefix("data: ")) for line in lines]
    assert [line[0] for line in lines] == [f"event: {event['type']}" for event in events]
    return events


@pytest.mark.parametrize("ending", ENDINGS)
def test_stream_has_its_events_in_order_however_the_run_ends(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    log, stands, status, last = ENDINGS[ending]
    events = streamed(serve(monkeypatch, log, **stands))
    types = [event["type"] for event in events]
    speaks = any(type_ in ("message.delta", "interaction.required") for type_, _ in log)
    told = [*MESSAGE_OPENED, "response.output_text.delta", *MESSAGE_DONE] if speaks else []
    assert types == ["response.created", "response.in_progress", *told, last]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["status"] == status


@pytest.mark.parametrize("ending", ENDINGS)
def test_response_is_the_same_whole_streamed_and_read_later(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    log, stands, *_ = ENDINGS[ending]
    run = serve(monkeypatch, log, **stands)
    whole = asyncio.run(whole_response(run))
    assert streamed(run)[-1]["response"] == whole == show_response(f"resp_{RUN_ID}", OWNER)


def test_item_is_the_same_in_all_events_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    log, stands, *_ = ENDINGS["completed"]
    events = streamed(serve(monkeypatch, log, **stands))
    opened, done, last = (event for event in events if "item" in event or event["type"] == "response.completed")
    assert opened["item"] | {"status": "completed", "content": done["item"]["content"]} == done["item"]
    assert last["response"]["output"] == [done["item"]]


@pytest.mark.parametrize(
    ("ending", "error", "reason"),
    [
        ("completed", None, None),
        ("cut short", None, "max_output_tokens"),
        ("waiting", None, "interaction_required"),
        ("filtered", None, "content_filter"),
        ("failed", ("rate_limit_exceeded", "Busy."), None),
        ("failed in silence", ("server_error", "The run failed."), None),
        ("cancelled", ("server_error", "The run was cancelled."), None),
    ],
)
def test_response_tells_why_it_is_not_complete(
    monkeypatch: pytest.MonkeyPatch, ending: str, error: tuple[str, str] | None, reason: str | None
) -> None:
    log, stands, *_ = ENDINGS[ending]
    told = asyncio.run(whole_response(serve(monkeypatch, log, **stands)))
    assert told["error"] == (error and {"code": error[0], "message": error[1]})
    assert told["incomplete_details"] == (reason and {"reason": reason})


@pytest.mark.parametrize("before", [[], [SAID]])
def test_refusal_is_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch, before: list[tuple[str, Json]]) -> None:
    log = [TURN, *before, REFUSED, ("run.completed", {})]
    run = serve(monkeypatch, log, status="completed", stop_reason=StopReason.REFUSED, answer="I may not.")
    events = streamed(run)
    refused = [event for event in events if "refusal" in event["type"]]
    assert [event["type"] for event in refused] == ["response.refusal.delta", "response.refusal.done"]
    assert {event["content_index"] for event in refused} == {len(before)}
    content = events[-1]["response"]["output"][0]["content"]
    assert content[len(before) :] == [{"type": "refusal", "refusal": "I may not."}]
    assert events[-2]["item"]["content"] == content


def test_refusal_is_left_when_the_events_are_kept_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, [], status="completed", stop_reason=StopReason.REFUSED, answer="I may not.")
    assert show_response(f"resp_{RUN_ID}", OWNER)["output"][0]["content"][0]["type"] == "refusal"


def test_calls_stand_beside_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[str, Json]] = [TURN, CALLED, CALL_DONE, TURN, SAID, ("run.completed", {})]
    told = asyncio.run(whole_response(serve(monkeypatch, log, status="completed")))
    assert told["stepagent"]["calls"] == [{"id": "a", "name": "search", "status": "done", "is_error": False}]
    assert [item["type"] for item in told["output"]] == ["message"]


def test_question_that_was_answered_is_shown_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    log, stands, *_ = ENDINGS["waiting"]
    assert asyncio.run(whole_response(serve(monkeypatch, log, **stands)))["stepagent"]["interactions"]
    answered = serve(monkeypatch, [*log, ("run.completed", {})], status="completed")
    assert not asyncio.run(whole_response(answered))["stepagent"]["interactions"]


def test_usage_has_the_names_of_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Usage(input_tokens=7, output_tokens=3, cached_tokens=2, reasoning_tokens=1)
    run = serve(monkeypatch, [("run.completed", {})], status="completed", usage=counted)
    assert asyncio.run(whole_response(run))["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 2},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 10,
    }


def test_answer_is_left_when_the_events_are_kept_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, [], status="completed", answer="It is 4.")
    assert show_response(f"resp_{RUN_ID}", OWNER)["output"][0]["content"][0]["text"] == "It is 4."


def test_response_is_in_progress_when_the_run_takes_longer_than_a_silent_request_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "SILENT_S", 0.01)
    told = asyncio.run(whole_response(serve(monkeypatch, [TURN, SAID])))
    assert (told["status"], told["usage"], told["output"][0]["status"]) == ("in_progress", None, "in_progress")


def test_stream_ends_with_an_error_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LONGEST_S", 0.01)
    last = streamed(serve(monkeypatch, [TURN, SAID]))[-1]
    assert (last["type"], last["code"]) == ("error", "run_still_going_on")


def test_stream_ends_with_an_error_when_the_journal_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run_id: str, after: int) -> None:
        raise RuntimeError("secret")

    run = serve(monkeypatch, [])
    monkeypatch.setattr(following, "read_events", broken)
    last = streamed(run)[-1]
    assert (last["type"], "secret" in json.dumps(last)) == ("error", False)


@pytest.mark.parametrize("response", ["", RUN_ID, f"chatcmpl-{RUN_ID}", f"resp_resp_{RUN_ID}"])
def test_response_is_not_found_by_another_id(monkeypatch: pytest.MonkeyPatch, response: str) -> None:
    serve(monkeypatch, [], status=RunStatus.COMPLETED)
    with pytest.raises(NotFound):
        show_response(response, OWNER)


# ---- requests


def read(**fields: Any) -> Any:
    return read_response_request(json.dumps({"model": "helper", "input": "Hi", **fields}).encode())


def test_request_is_a_chat_of_its_parts() -> None:
    parts = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
    ]
    earlier = {
        **{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"},
        "content": [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}],
    }
    chat = read(input=[earlier, {"role": "user", "content": parts}], instructions="Short.").as_chat("s")
    assert [(message.role, message.text) for message in chat.messages] == [
        ("system", "Short."),
        ("assistant", "Hello."),
        ("user", "Look"),
    ]
    assert chat.session_id == "s"
    assert [message.images for message in read(input=[{"role": "user", "content": parts}]).as_chat(None).conversation()]


def test_strategy_is_that_of_a_chat() -> None:
    assert (read(strategy="plan").as_chat(None).strategy, read().as_chat(None).strategy) == ("plan", None)


def test_schema_of_the_answer_is_that_of_a_chat() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "sum", "schema": schema, "strict": True}
    chat = read(text={"format": form}).as_chat(None)
    assert chat.answer_form.json_schema == schema


@pytest.mark.parametrize(
    ("form", "why"), [({"name": "a b"}, "name"), ({"name": "a", "schema": {"type": "no type"}}, "schema: ")]
)
def test_refusal_of_a_form_is_one_sentence(form: Json, why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(text={"format": {"type": "json_schema", **form}})
    assert (refused.value.param, "\n" in refused.value.message) == ("text.format", False)
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"max_tool_calls": 3}, "max_tool_calls"),
        ({"context_management": []}, "context_management"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"include": ["usage"]}, "include"),
        ({"store": False}, "store"),
        ({"truncation": "middle"}, "truncation"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"metadata": {"a": "x" * 600}}, "metadata.a"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input.0.content.0"),
    ],
)
def test_request_is_refused_by_the_name_of_what_is_not_supported(fields: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**fields)
    assert refused.value.param == param


HINTS = {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier"}


def test_field_of_openais_client_is_known_unless_it_is_a_hint_without_effect() -> None:
    fields = response_create_params.ResponseCreateParamsBase.__annotations__
    assert set(fields) - set(ResponseRequest.model_fields) <= HINTS


def test_field_is_told_as_ignored_when_nobody_knows_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    run = serve(monkeypatch, *ENDINGS["completed"][:1], status="completed")
    ignored = read(zzz=1, prompt_cache_key="k").ignored
    whole = asyncio.run(whole_response(run, ignored))
    assert streamed(run, ignored)[-1]["response"] == whole
    assert whole["stepagent"]["ignored"] == ["prompt_cache_key", "zzz"]


@pytest.mark.parametrize(("detail", "ignored"), [("low", ["input.content.detail"]), ("auto", [])])
def test_how_closely_an_image_is_looked_at_is_told_as_ignored(detail: str, ignored: list[str]) -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": detail}
    assert read(input=[{"role": "user", "content": [image]}]).ignored == ignored


def test_nothing_is_told_of_ignored_fields_when_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    run = serve(monkeypatch, *ENDINGS["completed"][:1], status="completed")
    assert "ignored" not in asyncio.run(whole_response(run, read().ignored))["stepagent"]


@pytest.mark.parametrize(
    "fields", [{"tools": []}, {"store": True}, {"background": False}, {"include": []}, {"reasoning": {}}, {"text": {}}]
)
def test_field_is_taken_when_it_says_what_is_so_anyhow(fields: Json) -> None:
    assert read(**fields) == read()


def test_response_names_the_run_before_it_in_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    run = serve(monkeypatch, [("run.completed", {})], status="completed", run_id="run_abc_2")
    assert asyncio.run(whole_response(Following(a_run(run_id="run_abc_2"), run.after)))["previous_response_id"] == (
        "resp_run_abc_1"
    )
