"""One request to a provider, made by the real client against a scripted server on this machine."""

from typing import Any

import openai
import pytest
from aws_lambda_powertools.utilities import parameters

from stepagent.errors import (
    ConfigurationError,
    ModelBusy,
    ModelContextExceeded,
    ModelError,
    ModelFiltered,
    ModelKeyRefused,
    ModelLacksTools,
    ModelQuotaSpent,
    ModelReplyUnusable,
    ModelRequestRejected,
)
from stepagent.llm import providers
from stepagent.llm.plain_reader import PlainReader
from stepagent.llm.providers import Witness, send
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Reply
from stepagent.usage import Usage
from tests.builders import Heard
from tests.scripted_model import Fault, Raw, ScriptedModel
from tests.scripted_model import Reply as Scripted

FIELDS = {"messages": [{"role": "user", "content": "Hi"}]}
HTML = "<html><body><h1>502 Bad Gateway</h1></body></html>"
HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def spec(model: ScriptedModel, **changes: Any) -> ModelSpec:
    row = {"name": "default", "provider_model": "m", "base_url": model.base_url, "idle_timeout_s": 1}
    return ModelSpec.model_validate({**row, "first_byte_timeout_s": 1, **changes})


def asked(model: ScriptedModel, heard: Heard | None = None, **changes: Any) -> Reply:
    witness = Witness(heard or Heard())
    return send(spec(model, **changes), dict(FIELDS), PlainReader(witness), witness)


def refused(model: ScriptedModel, heard: Heard | None = None, **changes: Any) -> ModelError:
    with pytest.raises(ModelError) as error:
        asked(model, heard, **changes)
    return error.value


def test_reply_is_read_when_the_server_streams_it(model: ScriptedModel) -> None:
    model.script(Scripted(text="Hello there", usage=(7, 2)))
    reply = asked(model)
    assert (reply.text, reply.usage.input_tokens, reply.usage.complete) == ("Hello there", 7, True)


def test_request_asks_for_a_stream_and_its_usage_when_the_model_counts(model: ScriptedModel) -> None:
    model.script(Scripted(text="x"))
    asked(model)
    [sent] = model.requests
    assert (sent["model"], sent["stream"], sent["stream_options"]) == ("m", True, {"include_usage": True})


def test_usage_is_not_asked_for_when_the_model_does_not_know_the_field(model: ScriptedModel) -> None:
    model.script(Scripted(text="x"))
    asked(model, stream_usage=False)
    assert "stream_options" not in model.requests[0]


@pytest.mark.parametrize("status", [401, 403])
def test_key_is_refused_when_the_provider_says_so(model: ScriptedModel, status: int) -> None:
    model.script(Fault(status, body={"error": {"message": "bad key", "code": "invalid_api_key"}}))
    error = refused(model)
    assert type(error) is ModelKeyRefused
    assert "bad key" in error.message


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 524, 529])
def test_model_is_busy_when_the_status_passes(model: ScriptedModel, status: int) -> None:
    model.script(Fault(status))
    assert type(refused(model)) is ModelBusy


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_request_is_rejected_when_the_status_stays(model: ScriptedModel, status: int) -> None:
    model.script(Fault(status, body={"error": {"message": "no such thing"}}))
    error = refused(model)
    assert type(error) is ModelRequestRejected
    assert "no such thing" in error.message


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (402, "Insufficient Balance", ModelQuotaSpent),
        (429, "You exceeded your current quota", ModelQuotaSpent),
        (400, "This model's maximum context length is 8192 tokens.", ModelContextExceeded),
        (400, "gemma does not support tools", ModelLacksTools),
        (400, "The response was filtered by the content filter", ModelFiltered),
    ],
)
def test_refusal_is_told_apart_when_another_request_may_fare_better(
    model: ScriptedModel, status: int, message: str, kind: type[ModelError]
) -> None:
    model.script(Fault(status, body={"error": {"message": message}}))
    error = refused(model)
    assert type(error) is kind
    assert message in error.message


def test_providers_words_are_kept_when_its_error_is_a_text(model: ScriptedModel) -> None:
    model.script(Fault(404, body={"error": "model 'm' not found, try pulling it first"}))
    assert "try pulling it first" in refused(model).message


def test_request_id_is_kept_when_the_provider_gives_one(model: ScriptedModel) -> None:
    model.script(Fault(400, {"x-request-id": "req-7"}))
    assert "req-7" in refused(model).message


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [("7", 7), ("0", 0), ("1.5", 1.5), ("-3", 0), ("soon", None), ("Wed, 21 Oct 2020 07:28:00 GMT", 0)],
)
def test_wait_is_the_providers_when_it_names_seconds(model: ScriptedModel, header: str, wait_s: float | None) -> None:
    model.script(Fault(429, {"Retry-After": header}))
    error = refused(model)
    assert isinstance(error, ModelBusy)
    assert error.wait_s == wait_s


@pytest.mark.parametrize("header", ["inf", "1e999", "nan"])
def test_wait_is_unknown_when_the_provider_names_no_number_of_seconds(model: ScriptedModel, header: str) -> None:
    model.script(Fault(429, {"Retry-After": header}))
    error = refused(model)
    assert isinstance(error, ModelBusy)
    assert error.wait_s is None


@pytest.mark.parametrize("status", [400, 502])
def test_page_of_html_is_not_repeated_when_a_proxy_sends_one(model: ScriptedModel, status: int) -> None:
    model.script(Fault(status, body=HTML))
    message = refused(model).message
    assert str(status) in message
    assert "<" not in message


@pytest.mark.parametrize("fault", [Fault(429, {"Retry-After": "0"}), Fault(500), Raw(cut_after_chunks=0)])
def test_one_request_is_sent_when_the_answer_is_a_fault(model: ScriptedModel, fault: Fault | Raw) -> None:
    model.script(fault, fault, fault)
    refused(model)
    assert len(model.requests) == 1


def test_model_is_busy_when_nobody_listens(model: ScriptedModel) -> None:
    error = refused(model, base_url="http://127.0.0.1:9/v1")
    assert type(error) is ModelBusy
    assert "cannot be reached" in error.message
    assert "127.0.0.1" not in error.message  # callers of the API read it


@pytest.mark.parametrize("body", [HTML, "", "{", "[1, 2]"])
def test_reply_is_an_error_of_ours_when_the_body_is_no_stream(model: ScriptedModel, body: str) -> None:
    model.script(Fault(200, body=body))
    assert isinstance(refused(model), ModelBusy | ModelReplyUnusable)


@pytest.mark.parametrize("data", [5, "text", [1], None, {"choices": 5}, {"choices": [5]}, {"choices": [{"delta": 5}]}])
def test_reply_is_an_error_of_ours_when_a_chunk_is_garbage(model: ScriptedModel, data: Any) -> None:
    model.script(Raw(chunks=(data, chunk({}, "stop"))))
    refused(model)


def test_model_is_busy_when_the_stream_is_cut_before_anything_was_shown(model: ScriptedModel) -> None:
    model.script(Scripted(reasoning="hm, let me think", text="Hello", cut_after_chunks=2))
    assert type(refused(model)) is ModelBusy


def test_reply_is_unusable_when_the_stream_is_cut_after_something_was_shown(model: ScriptedModel) -> None:
    heard = Heard()
    model.script(Scripted(text="Hello there, how are you?", cut_after_chunks=3))
    assert type(refused(model, heard)) is ModelReplyUnusable
    assert "".join(heard.texts)


@pytest.mark.parametrize(("shown", "kind"), [("", ModelBusy), ("Hel", ModelReplyUnusable)])
def test_stream_without_an_end_is_no_answer_when_it_closes_in_order(
    model: ScriptedModel, shown: str, kind: type[ModelError]
) -> None:
    model.script(Raw(chunks=(chunk({"content": shown}),), done=False))
    assert type(refused(model)) is kind


@pytest.mark.parametrize("done", [True, False])
def test_model_is_busy_when_the_stream_is_empty(model: ScriptedModel, done: bool) -> None:
    model.script(Raw(done=done))
    assert type(refused(model)) is ModelBusy


@pytest.mark.parametrize(("arguments", "whole"), [('{"q": 1}', True), ('{"q": ', False)])
def test_closing_mark_is_enough_when_no_call_is_cut(model: ScriptedModel, arguments: str, whole: bool) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "search", "arguments": arguments}}
    model.script(Raw(chunks=(chunk({"tool_calls": [call]}),)))
    if whole:
        assert asked(model).calls[0].arguments == arguments
    else:
        assert type(refused(model)) is ModelBusy


@pytest.mark.parametrize(("shown", "kind"), [("", ModelBusy), ("Hel", ModelReplyUnusable)])
def test_error_inside_a_stream_is_told_when_the_status_was_200(
    model: ScriptedModel, shown: str, kind: type[ModelError]
) -> None:
    broken = {"error": {"message": "overloaded", "type": "server_error"}}
    model.script(Raw(chunks=(chunk({"content": shown}), broken)))
    error = refused(model)
    assert type(error) is kind
    assert "overloaded" in error.message


@pytest.mark.parametrize("message", ["gemma does not support tools", "maximum context length exceeded", "overloaded"])
def test_nobody_asks_again_when_an_error_comes_after_something_was_shown(model: ScriptedModel, message: str) -> None:
    model.script(Raw(chunks=(chunk({"content": "Hel"}), {"error": {"message": message}})))
    error = refused(model)
    assert type(error) is ModelReplyUnusable
    assert message in error.message


def test_tokens_count_when_the_stream_breaks_after_they_were_told(model: ScriptedModel) -> None:
    counted = {**HEAD, "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    model.script(Raw(chunks=(counted, {"error": {"message": "overloaded"}})))
    assert (refused(model).usage.input_tokens, model.requests[0]["stream"]) == (7, True)


def test_nothing_is_unknown_about_the_cost_when_the_request_was_refused(model: ScriptedModel) -> None:
    model.script(Fault(429))
    assert refused(model).usage == Usage()


def test_cost_is_known_to_be_unknown_when_the_stream_broke_before_it_was_told(model: ScriptedModel) -> None:
    model.script(Raw(chunks=(chunk({"content": "Hel"}),), done=False))
    assert not refused(model).usage.complete


def test_reply_is_read_when_the_server_does_not_stream(model: ScriptedModel) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    heard = Heard()
    model.script(Fault(200, body={"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}))
    reply = asked(model, heard)
    assert (reply.text, heard.texts, reply.usage.input_tokens) == ("Hi", ["Hi"], 3)


def test_model_is_busy_when_nothing_but_heartbeats_comes(model: ScriptedModel) -> None:
    model.script(Scripted(text="never", stall_after_chunks=1))
    assert type(refused(model, idle_timeout_s=0.2)) is ModelBusy


def test_model_is_busy_when_no_data_comes_in_time(model: ScriptedModel) -> None:
    model.script(Scripted(text="late", first_delay_s=1.3))
    assert type(refused(model)) is ModelBusy


def test_finish_is_enough_when_the_closing_mark_is_missing(model: ScriptedModel) -> None:
    model.script(Raw(chunks=(chunk({"content": "Hi"}), chunk({}, "stop")), done=False))
    assert asked(model).text == "Hi"


def test_query_is_sent_when_the_model_has_one(model: ScriptedModel) -> None:
    model.script(Scripted(text="x"))
    assert asked(model, query={"api-version": "2025-01-01"}).text == "x"
    assert model.queries == ["api-version=2025-01-01"]


def test_fields_that_the_client_does_not_know_are_sent_when_the_model_has_some(model: ScriptedModel) -> None:
    model.script(Scripted(text="x"))
    asked(model, defaults={"enable_thinking": False, "top_k": 5})
    assert (model.requests[0]["enable_thinking"], model.requests[0]["top_k"]) == (False, 5)


@pytest.mark.parametrize("base_url", ["no url", "http://[", "ftp://127.0.0.1/v1", ""])
def test_failure_is_an_error_of_ours_when_the_base_url_is_none(model: ScriptedModel, base_url: str) -> None:
    with pytest.raises((ModelError, ConfigurationError)):
        asked(model, base_url=base_url)


@pytest.mark.parametrize("key", ["", "two\nlines", "schl\u00fcssel"])
def test_configuration_is_at_fault_when_the_secret_holds_no_key(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(parameters, "get_secret", lambda name, max_age: key)
    with pytest.raises(ConfigurationError, match="'default'") as error:
        asked(model, api_key_secret="arn:secret")
    assert not key or key not in error.value.message


def test_configuration_is_at_fault_when_the_secret_cannot_be_read(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(name: str, max_age: int) -> str:
        raise parameters.GetParameterError("denied")

    monkeypatch.setattr(parameters, "get_secret", unreadable)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        asked(model, api_key_secret="arn:secret")


def test_failure_is_an_error_of_ours_when_the_client_raises_what_it_has_never_raised(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unheard(openai.OpenAIError):
        pass

    def client(spec: ModelSpec, key: str) -> Any:
        raise Unheard("new in some version")

    monkeypatch.setattr(providers, "_client", client)
    assert isinstance(refused(model), ModelError)
