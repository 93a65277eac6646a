"""Requests as clients send them: what is taken, and how a refusal names the field."""

import codecs
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params

from stepagent.answer_form import AnswerForm
from stepagent.api.body import MAX_BODY_BYTES, raw_body
from stepagent.api.chat_fields import NotOffered
from stepagent.api.requests import ChatRequest, read_answer_request, read_chat_request, read_job_request
from stepagent.api.shapes import completion, refusal
from stepagent.errors import BodyTooLarge, InvalidRequest, RequestError
from stepagent.messages import AssistantMessage, AttachedFile, UserMessage
from tests.builders import a_run

HELLO = {"role": "user", "content": "Hello"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def body(**changes: Any) -> bytes:
    return json.dumps({"model": "helper", "messages": [HELLO]} | changes).encode()


def refused(content: bytes) -> RequestError:
    with pytest.raises(RequestError) as refusal:
        read_chat_request(content)
    return refusal.value


def asking(*parts: dict[str, Any]) -> bytes:
    """A request whose message says "See" and brings these parts."""
    return body(messages=[{"role": "user", "content": [{"type": "text", "text": "See"}, *parts]}])


def image_of(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def file_of(data: str) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": "a.txt", "file_data": f"data:text/plain;base64,{data}"}}


def schema_format(schema: Any = SCHEMA, name: str = "thing") -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def test_request_is_read_when_it_is_as_openai_clients_send_it() -> None:
    request = read_chat_request(
        body(stream=True, stream_options={"include_usage": True}, temperature=1, max_tokens=5, n=1, user="u")
    )
    assert (request.stream, request.temperature, request.max_output_tokens) == (True, 1, 5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b'{"n": NaN}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (gzip.compress(b"{}"), "compressed"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b'{"n": 1e999}', "too large"),
        (b'{"messages": [{"n": -1e999}]}', "too large"),
        (b'{"n": ' + b"1" * 5000 + b"}", "not valid JSON"),
        (b"null", "must be a JSON object"),
        (b'"model"', "must be a JSON object"),
    ],
)
def test_body_is_refused_with_the_reason_when_it_is_no_object(content: bytes, words: str) -> None:
    error = refused(content)
    assert type(error) is InvalidRequest
    assert words in error.message


def test_body_is_read_when_it_begins_with_a_byte_order_mark() -> None:
    assert read_chat_request(codecs.BOM_UTF8 + body()).model == "helper"


LONG = "\x01" * 1_000_000


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": [{**HELLO, LONG: 1}]},
        {"messages": [{"role": LONG, "content": "Hi"}]},
        {"messages": [{"role": "user", "content": [{"type": LONG}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": LONG}}]}]},
        {"metadata": {LONG: "x"}},
        {"metadata": {"x": LONG}},
        {"reasoning_effort": LONG},
        {"response_format": {"type": "json_schema", "json_schema": {"name": LONG}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": LONG}}}},
    ],
)
def test_refusal_is_short_whatever_the_client_wrote(changes: dict[str, Any]) -> None:
    error = refused(body(**changes))
    assert len(json.dumps(refusal(error))) < 5_000


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": 5}, "model"),
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages.0"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]}, "messages.0.role"),
        ({"messages": [{**HELLO, "extra": 1}]}, "messages.0.extra"),
        ({"messages": [HELLO, {"role": "assistant", "content": "Hi"}]}, "messages"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "messages"),
        ({"messages": [{"role": "system", "content": "Be brief."}]}, "messages"),
        ({"stream": "true"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"presence_penalty": -2.1}, "presence_penalty"),
        ({"frequency_penalty": "1"}, "frequency_penalty"),
        ({"seed": 1.5}, "seed"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": [""]}, "stop.0"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
        ({"user": 5}, "user"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5.0}, "max_tokens"),
        ({"max_completion_tokens": True}, "max_completion_tokens"),
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "x" * 129}, "session_id"),
        ({"chatId": 5}, "chatId"),
        ({"detail": "yes"}, "detail"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream_options": {"other": True}}, "stream_options.other"),
        ({"metadata": {"a": 5}}, "metadata.a"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": schema_format(name="a b")}, "response_format.json_schema"),
        ({"response_format": {"type": "text", "other": 1}}, "response_format.other"),
    ],
)
def test_refusal_names_the_field_when_one_is_wrong(changes: dict[str, Any], param: str) -> None:
    error = refused(body(**changes))
    assert type(error) is InvalidRequest
    assert (error.param, error.http_status) == (param, 400)


ASKS_FOR_MORE: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "n": 2,
    "logprobs": True,
    "top_logprobs": 3,
    "logit_bias": {"50256": -100},
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "mp3"},
    "prediction": {"type": "content", "content": "x"},
    "moderation": {"model": "omni-moderation-latest"},
    "web_search_options": {},
    "verbosity": "low",
    "service_tier": "flex",
    "store": True,
    "variables": {"a": 1},
}
ASKS_FOR_NOTHING: dict[str, Any] = {
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "functions": [],
    "function_call": "none",
    "n": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "modalities": ["text"],
    "audio": None,
    "prediction": None,
    "moderation": None,
    "web_search_options": None,
    "verbosity": "medium",
    "service_tier": "auto",
    "store": False,
    "variables": {},
}


@pytest.mark.parametrize("field", ASKS_FOR_MORE)
def test_field_is_refused_by_name_when_it_asks_for_what_we_do_not_do(field: str) -> None:
    error = refused(body(**{field: ASKS_FOR_MORE[field]}))
    assert (error.param, error.error_code) == (field, "unsupported_parameter")
    assert field in error.message


@pytest.mark.parametrize("field", ASKS_FOR_NOTHING)
def test_field_is_taken_when_its_value_asks_for_nothing(field: str) -> None:
    assert read_chat_request(body(**{field: ASKS_FOR_NOTHING[field]})).ignored == []


def test_fields_that_are_not_offered_are_all_tried() -> None:
    assert set(ASKS_FOR_MORE) == set(ASKS_FOR_NOTHING) == set(NotOffered.model_fields)


HINTS = {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier"}


def test_field_of_openais_client_is_known_unless_it_is_a_hint_without_effect() -> None:
    fields = completion_create_params.CompletionCreateParamsBase.__annotations__
    assert set(fields) - set(ChatRequest.model_fields) <= HINTS


def test_field_is_told_as_ignored_when_nobody_knows_its_name() -> None:
    assert read_chat_request(body(temprature=1, unknown_field={"a": [1]})).ignored == ["temprature", "unknown_field"]


def test_field_of_a_message_is_told_as_ignored_when_it_has_no_effect() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    request = body(messages=[{"role": "user", "name": "Ann", "content": [image]}])
    assert read_chat_request(request).ignored == ["messages.content.image_url.detail", "messages.name"]


def test_nothing_is_told_of_an_image_that_is_looked_at_as_usual() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "auto"}}
    assert read_chat_request(body(messages=[{"role": "user", "content": [image]}])).ignored == []


def test_ignored_names_are_bounded_when_there_are_many_and_long_ones() -> None:
    ignored = read_chat_request(body(**{f"{n:02}{'x' * 500}": n for n in range(50)})).ignored
    assert (len(ignored), max(map(len, ignored))) == (20, 64)


def test_wishes_to_the_model_are_read_when_they_are_as_openai_clients_send_them() -> None:
    wishes = {"top_p": 0.5, "presence_penalty": -1, "frequency_penalty": 2, "seed": 7, "reasoning_effort": "low"}
    request = read_chat_request(body(**wishes))
    assert {name: getattr(request, name) for name in wishes} == wishes


@pytest.mark.parametrize(("given", "read"), [("a", ["a"]), (["a", "b"], ["a", "b"]), (None, [])])
def test_stop_is_a_list_of_texts_whether_one_or_more_are_given(given: Any, read: list[str]) -> None:
    assert read_chat_request(body(stop=given)).stop == read


@pytest.mark.parametrize(
    ("given", "form"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, AnswerForm()),
        (schema_format(), AnswerForm(name="thing", json_schema=SCHEMA, strict=True)),
    ],
)
def test_form_of_the_answer_is_read_from_its_format(given: Any, form: AnswerForm | None) -> None:
    assert read_chat_request(body(response_format=given)).answer_form == form


@pytest.mark.parametrize(
    "given",
    [
        "json",
        {"type": "xml"},
        {"type": "json_schema"},
        schema_format(name="a b"),
        schema_format({"type": "no type"}),
        schema_format({"description": "x" * 70_000}),
    ],
)
def test_refusal_names_the_format_when_it_is_none(given: Any) -> None:
    assert (refused(body(response_format=given)).param or "").startswith("response_format")


def test_metadata_and_user_are_read_when_they_are_given() -> None:
    request = read_chat_request(body(metadata={"order": "7"}, user="u-1"))
    assert (request.metadata, request.user) == ({"order": "7"}, "u-1")


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": 1},
        {"a": None},
        {"a": {"b": "c"}},
        {"": "x"},
        {"x" * 65: "y"},
        {"x": "y" * 513},
        dict.fromkeys(map(str, range(17)), ""),
    ],
)
def test_metadata_is_refused_when_it_is_above_the_limits(metadata: dict[str, Any]) -> None:
    assert (refused(body(metadata=metadata)).param or "").startswith("metadata")


@pytest.mark.parametrize(
    "reply",
    [
        {"role": "assistant", "content": None, "refusal": "I cannot."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]},
        {"role": "assistant", "content": "I cannot.", "tool_calls": None, "annotations": [], "audio": None},
    ],
)
def test_reply_is_taken_when_it_is_as_clients_keep_it(reply: dict[str, Any]) -> None:
    assert read_chat_request(body(messages=[HELLO, reply, HELLO])).conversation()[1] == AssistantMessage(
        text="I cannot."
    )


@pytest.mark.parametrize(("text", "is_base64"), [('{"a": "ü"}', False), ("eyJhIjogIsO8In0=", True)])
def test_body_of_an_event_is_the_clients_bytes_whether_or_not_it_is_in_base64(text: str, is_base64: bool) -> None:
    assert raw_body(text, is_base64=is_base64) == '{"a": "ü"}'.encode()


def test_body_of_an_event_is_refused_as_json_when_it_holds_half_a_character() -> None:
    assert refused(raw_body('{"model": "\ud83d"}', is_base64=False)).http_status == 400


def test_body_is_refused_when_it_is_not_the_base64_that_the_event_says() -> None:
    with pytest.raises(InvalidRequest):
        raw_body("!", is_base64=True)


def test_refusal_points_at_the_part_when_it_is_an_image() -> None:
    error = refused(asking(image_of("file:///etc/passwd")))
    assert error.param == "messages.0.content.1.image_url.url"
    assert "https" in error.message


@pytest.mark.parametrize("url", ["https://example.org/a.png", "data:image/png;base64,iVBORw0KGgo="])
def test_image_comes_along_when_its_url_is_one_that_models_read(url: str) -> None:
    [message] = read_chat_request(asking(image_of(url))).conversation()
    assert message == UserMessage(text="See", images=(url,))


def test_document_comes_along_as_text_when_it_is_base64() -> None:
    [message] = read_chat_request(asking(file_of("YmzDvA=="))).conversation()
    assert message == UserMessage(text="See", files=(AttachedFile(name="a.txt", text="blü"),))


def test_message_need_not_have_words_when_it_brings_an_image() -> None:
    parts = [image_of("https://example.org/a.png")]
    [message] = read_chat_request(body(messages=[{"role": "user", "content": parts}])).conversation()
    assert message == UserMessage(text="", images=("https://example.org/a.png",))


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "text"}, ".text"),
        ({"type": "image_url"}, ".image_url"),
        ({"type": "image_url", "image_url": {}}, ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "https://a", "image_url": 1}}, ".image_url.image_url"),
        ({"type": "sound"}, ""),
        ({"type": "file", "file": {"file_data": ""}}, ".file.filename"),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf,"}}, ".file.file_data"),
        ({"type": "file", "file": {"filename": "a", "file_data": "data:text/plain;base64,", "x": 1}}, ".file.x"),
    ],
)
def test_refusal_points_at_the_part_when_it_is_not_well_formed(part: dict[str, Any], param: str) -> None:
    assert refused(asking(part)).param == f"messages.0.content.1{param}"


def test_refusal_names_the_kinds_of_parts_when_one_is_of_no_kind() -> None:
    assert "'image_url'" in refused(asking({"type": "sound"})).message


def test_refusal_does_not_show_a_pattern_when_it_can_say_what_is_wanted() -> None:
    document = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
    assert "text document" in refused(asking(document)).message


def test_request_is_refused_when_a_document_is_not_the_base64_that_it_says() -> None:
    request = read_chat_request(asking(file_of("!!!!")))
    with pytest.raises(RequestError) as refusal:
        request.conversation()
    assert refusal.value.param == "messages"


def test_request_is_refused_when_a_message_brings_more_than_twenty_files() -> None:
    assert len(read_chat_request(asking(*[file_of("YQ==")] * 20)).messages[0].parts) == 21
    assert "20" in refused(asking(*[file_of("YQ==")] * 21)).message


def test_session_is_refused_when_both_of_its_names_are_given() -> None:
    assert refused(body(session_id="a", chatId="b")).param in ("session_id", "chatId")


def test_session_is_known_by_its_other_name_when_a_client_gives_that() -> None:
    assert read_chat_request(body(chatId="a")).session_id == "a"


def test_parts_become_one_text_when_content_is_a_list() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read_chat_request(body(messages=[{"role": "user", "content": parts}])).messages[0].text == "a\nb"


def test_text_is_refused_when_it_holds_half_a_character() -> None:
    assert refused(b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}').http_status == 400


def test_body_is_read_when_it_is_as_large_as_it_may_be() -> None:
    content = body()
    padded = content + b" " * (MAX_BODY_BYTES - len(content))
    assert read_chat_request(padded).model == "helper"


def test_body_is_too_large_when_it_has_one_byte_more_than_it_may() -> None:
    error = refused(b" " * (MAX_BODY_BYTES + 1))
    assert (type(error), error.http_status) == (BodyTooLarge, 413)


def chat(*messages: tuple[str, str], session_id: str | None = None) -> ChatRequest:
    listed = [{"role": role, "content": text} for role, text in messages]
    return read_chat_request(body(messages=listed, session_id=session_id))


DIALOGUE = (("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "d"))


def test_whole_conversation_counts_when_there_is_no_session() -> None:
    assert chat(*DIALOGUE).conversation() == [
        UserMessage(text="a"),
        AssistantMessage(text="b"),
        UserMessage(text="c"),
        UserMessage(text="d"),
    ]


def test_only_what_follows_the_last_reply_counts_when_there_is_a_session() -> None:
    assert chat(*DIALOGUE, session_id="s").conversation() == [UserMessage(text="c"), UserMessage(text="d")]


def test_all_messages_count_when_a_session_has_no_reply_yet() -> None:
    assert len(chat(("user", "a"), ("user", "b"), session_id="s").conversation()) == 2


def test_system_text_is_kept_apart_when_it_is_given() -> None:
    request = chat(("system", "Be brief."), ("developer", "Be kind."), ("user", "a"))
    assert (request.system, len(request.conversation())) == ("Be brief.\n\nBe kind.", 1)


def test_our_own_reply_is_taken_when_a_client_sends_it_back() -> None:
    reply = completion(a_run(), "Hi.", "hm")["choices"][0]["message"]
    assert read_chat_request(body(messages=[HELLO, reply, HELLO])).conversation()[1] == AssistantMessage(text="Hi.")


@pytest.mark.parametrize("content", [b"{}", b'{"answer": ""}', b'{"answer": 5}', b'{"answer": "x", "token": "y"}', b""])
def test_answer_is_refused_when_it_has_the_wrong_form(content: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_answer_request(content)


def test_answer_is_read_when_it_is_a_text() -> None:
    assert read_answer_request('{"answer": "ja, gerne ä"}'.encode()).answer == "ja, gerne ä"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([*ChatRequest.model_fields, "chatId", "other"])


@given(st.dictionaries(FIELDS, JSON, max_size=5))
def test_request_is_read_or_refused_as_a_request_error_whatever_is_sent(changes: dict[str, Any]) -> None:
    assert outcome_of(body(**changes)) in (200, 400)


def outcome_of(content: bytes) -> int:
    try:
        read_chat_request(content)
    except RequestError as error:
        return error.http_status
    return 200


def test_job_says_how_its_agent_works_on_it() -> None:
    assert read_job_request(b'{"agent": "helper", "input": "Hi", "strategy": "plan"}').as_chat().strategy == "plan"
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(b'{"agent": "helper", "input": "Hi", "strategy": "tree"}')
    assert refusal.value.param == "strategy"
