"""Refusals as providers word them, and which of our errors each is."""

import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.errors import (
    ModelBusy,
    ModelContextExceeded,
    ModelError,
    ModelFiltered,
    ModelKeyRefused,
    ModelLacksTools,
    ModelQuotaSpent,
    ModelRequestRejected,
)
from stepagent.llm.refusals import Refusal, read_refusal, retry_after_s

HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def error(message: str, code: Any = None, type_: Any = None, **more: Any) -> dict[str, Any]:
    """A body in OpenAI's form."""
    return {"error": {"message": message, "type": type_, "code": code, **more}}


Row = tuple[str, int, Any, type[ModelError]]

OPENAI: list[Row] = [
    ("openai key", 401, error("Incorrect API key provided: sk-x.", "invalid_api_key"), ModelKeyRefused),
    ("openai region", 403, error("Country, region, or territory not supported"), ModelKeyRefused),
    ("openai quota", 429, error("You exceeded your current quota.", "insufficient_quota"), ModelQuotaSpent),
    ("openai bill", 429, error("Your account is not active.", "billing_not_active"), ModelQuotaSpent),
    ("openai limit", 400, error("Billing hard limit has been reached"), ModelQuotaSpent),
    (
        "openai rate",
        429,
        error("Rate limit reached for gpt-4.1 in organization org-x.", "rate_limit_exceeded"),
        ModelBusy,
    ),
    ("openai rate, tokens", 429, error("Request too large for gpt-4o on tokens per min"), ModelContextExceeded),
    ("openai down", 500, error("The server had an error while processing your request."), ModelBusy),
    ("openai overload", 503, error("The engine is currently overloaded, please try again later"), ModelBusy),
    (
        "openai context",
        400,
        error("This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        ModelContextExceeded,
    ),
    ("openai long text", 400, error("Invalid 'messages[0].content'", "string_above_max_length"), ModelContextExceeded),
    ("openai policy", 400, error("Invalid prompt: your prompt was flagged", "invalid_prompt"), ModelFiltered),
    ("openai safety", 400, error("Your request was rejected as a result of our safety system."), ModelFiltered),
    (
        "openai no tools",
        400,
        error("Unsupported parameter: 'tools' is not supported with this model.", "unsupported_parameter"),
        ModelLacksTools,
    ),
    ("openai no functions", 400, error("Unrecognized request argument supplied: functions"), ModelLacksTools),
    ("openai model", 404, error("The model `gpt-9` does not exist", "model_not_found"), ModelRequestRejected),
    ("openai field", 400, error("Unsupported parameter: 'max_tokens'", "unsupported_parameter"), ModelRequestRejected),
    (
        "openai schema",
        400,
        error("Invalid schema for function 'search': 'x' is not of type 'object'"),
        ModelRequestRejected,
    ),
]
AZURE: list[Row] = [
    ("azure key", 401, error("Access denied due to invalid subscription key", "401"), ModelKeyRefused),
    ("azure deployment", 404, error("The API deployment does not exist", "DeploymentNotFound"), ModelRequestRejected),
    ("azure filter", 400, error("The response was filtered due to the prompt", "content_filter"), ModelFiltered),
    ("azure policy", 400, error("triggering Azure OpenAI's content management policy."), ModelFiltered),
    ("azure rate", 429, error("exceeded token rate limit. Please retry after 8 seconds.", "429"), ModelBusy),
    (
        "azure gateway",
        429,
        {"statusCode": 429, "message": "Rate limit is exceeded. Try again in 12 seconds."},
        ModelBusy,
    ),
]
ANTHROPIC: list[Row] = [
    ("anthropic overload", 529, error("Overloaded", type_="overloaded_error"), ModelBusy),
    ("anthropic credit", 400, error("Your credit balance is too low to access the Anthropic API."), ModelQuotaSpent),
    ("anthropic context", 400, error("prompt is too long: 210000 tokens > 200000 maximum"), ModelContextExceeded),
    (
        "anthropic limit",
        400,
        error("input length and `max_tokens` exceed context limit: 9 + 2 > 10"),
        ModelContextExceeded,
    ),
    ("anthropic key", 401, error("invalid x-api-key", type_="authentication_error"), ModelKeyRefused),
]
DEEPSEEK: list[Row] = [
    ("deepseek balance", 402, error("Insufficient Balance", "invalid_request_error"), ModelQuotaSpent),
    ("deepseek context", 400, error("This model's maximum context length is 65536 tokens."), ModelContextExceeded),
    ("deepseek tools", 400, error("deepseek-reasoner does not support Function Calling"), ModelLacksTools),
    ("deepseek content", 400, error("Content Exists Risk"), ModelFiltered),
    ("deepseek busy", 503, error("Service is too busy."), ModelBusy),
]
QWEN: list[Row] = [
    (
        "qwen filter",
        400,
        error("Input data may contain inappropriate content.", "data_inspection_failed"),
        ModelFiltered,
    ),
    ("qwen arrears", 400, error("Access denied, account is not in good standing.", "Arrearage"), ModelQuotaSpent),
    ("qwen context", 400, error("Range of input length should be [1, 30720]"), ModelContextExceeded),
]
GEMINI: list[Row] = [
    (
        "gemini rate",
        429,
        [
            error(
                "You exceeded your current quota, please check your plan and billing details. Please retry in 34.07s.",
                429,
                status="RESOURCE_EXHAUSTED",
            )
        ],
        ModelBusy,
    ),
    ("gemini exhausted", 429, [error("Resource has been exhausted (e.g. check quota).", 429)], ModelBusy),
    (
        "gemini context",
        400,
        [error("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 400)],
        ModelContextExceeded,
    ),
    ("gemini tools", 400, [error("Function calling is not enabled for models/gemma-3-1b-it", 400)], ModelLacksTools),
    ("gemini overload", 503, [error("The model is overloaded.", 503, status="UNAVAILABLE")], ModelBusy),
    ("gemini argument", 400, [error("Request contains an invalid argument.", 400)], ModelRequestRejected),
]
MISTRAL: list[Row] = [
    ("mistral rate", 429, {"object": "error", "message": "Requests rate limit exceeded", "code": "1300"}, ModelBusy),
    (
        "mistral context",
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
        ModelContextExceeded,
    ),
    ("mistral tools", 400, {"message": "Function calling is not enabled for this model"}, ModelLacksTools),
    ("mistral key", 401, {"message": "Unauthorized", "request_id": "x"}, ModelKeyRefused),
    ("mistral ids", 400, {"message": "Tool call id was call_1 but must be a-z, A-Z, 0-9"}, ModelRequestRejected),
    ("mistral detail", 422, {"detail": [{"loc": ["body"], "msg": "Extra inputs"}]}, ModelRequestRejected),
]
GROQ: list[Row] = [
    (
        "groq rate",
        429,
        error("Rate limit reached. Please try again in 7.66s. Visit https://console.groq.com/settings/billing"),
        ModelBusy,
    ),
    (
        "groq large",
        413,
        error("Request too large on tokens per minute, please reduce your message size.", "rate_limit_exceeded"),
        ModelContextExceeded,
    ),
    ("groq context", 400, error("Please reduce the length of the messages or completion."), ModelContextExceeded),
    ("groq tools", 400, error("`tool calling` is not supported with this model"), ModelLacksTools),
    ("groq flex", 498, error("Flex tier capacity exceeded"), ModelRequestRejected),
]
OPENROUTER: list[Row] = [
    ("openrouter tools", 404, error("No endpoints found that support tool use.", 404), ModelLacksTools),
    ("openrouter credit", 402, error("Insufficient credits. Add more.", 402), ModelQuotaSpent),
    ("openrouter moderation", 403, error("Your chosen model requires moderation", 403), ModelFiltered),
    ("openrouter down", 502, error("Provider returned error", 502), ModelBusy),
    ("in stream: rate", 200, error("Rate limit exceeded", 429), ModelBusy),
    ("in stream: down", 200, error("Provider disconnected unexpectedly", 502), ModelBusy),
    ("in stream: word", 200, error("Overloaded", "server_error"), ModelBusy),
    ("in stream: nothing", 200, error("Upstream error"), ModelBusy),
    ("in stream: credit", 200, error("Insufficient credits", 402), ModelQuotaSpent),
    ("in stream: quota", 200, error("You exceeded your current quota", "insufficient_quota"), ModelQuotaSpent),
    ("in stream: key", 200, error("No auth credentials found", 401), ModelKeyRefused),
    ("in stream: moderation", 200, error("Input was flagged", 403), ModelFiltered),
    (
        "in stream: context",
        200,
        error("This endpoint's maximum context length is 4096 tokens", 400),
        ModelContextExceeded,
    ),
    ("in stream: context word", 200, error("Too long", "context_length_exceeded"), ModelContextExceeded),
    ("in stream: tools", 200, error("No endpoints found that support tool use", 404), ModelLacksTools),
    ("in stream: request", 200, error("Invalid request", 400), ModelRequestRejected),
    ("in stream: type", 200, error("Bad field", type_="invalid_request_error"), ModelRequestRejected),
    ("in stream: text", 200, {"error": "upstream closed"}, ModelBusy),
]
LOCAL: list[Row] = [
    (
        "ollama tools",
        400,
        error("registry.ollama.ai/library/gemma:2b does not support tools", type_="api_error"),
        ModelLacksTools,
    ),
    ("ollama model", 404, {"error": "model 'm' not found, try pulling it first"}, ModelRequestRejected),
    ("ollama context", 400, error("the input length exceeds the context length"), ModelContextExceeded),
    ("ollama busy", 503, error("server busy, please try again. maximum pending requests exceeded"), ModelBusy),
    ("vllm tools", 400, error('"auto" tool choice requires --enable-auto-tool-choice to be set'), ModelLacksTools),
    (
        "vllm context",
        400,
        {"object": "error", "message": "maximum context length is 4096 tokens"},
        ModelContextExceeded,
    ),
    (
        "vllm prompt",
        400,
        error("The decoder prompt is longer than the maximum model length of 4096."),
        ModelContextExceeded,
    ),
    ("llama.cpp tools", 500, error("tools param requires --jinja flag", 500), ModelLacksTools),
    ("llama.cpp context", 400, error("the request exceeds the available context size", 400), ModelContextExceeded),
    ("llama.cpp context, old", 500, error("Context size has been exceeded.", 500), ModelContextExceeded),
    ("llama.cpp loading", 503, error("Loading model", 503, "unavailable_error"), ModelBusy),
    ("xai context", 400, {"error": "This model's maximum prompt length is 131072"}, ModelContextExceeded),
    ("bedrock context", 400, error("Input is too long for requested model."), ModelContextExceeded),
    ("bedrock tools", 400, error("This model doesn't support tool use."), ModelLacksTools),
    ("bedrock rate", 429, error("Too many tokens, please wait before trying again."), ModelBusy),
    ("bedrock role", 403, error("not authorized because no identity-based policy allows it"), ModelKeyRefused),
]
EMPTY: list[Any] = ["", None, {}, [], [[]]]
PROXIES: list[Row] = [
    *[(f"html {status}", status, HTML, ModelBusy) for status in (500, 502, 503, 504, 520, 524, 529)],
    *[(f"empty {status}", status, body, ModelBusy) for status in (429, 503) for body in EMPTY],
    ("html refusal", 404, HTML, ModelRequestRejected),
    ("html, text inside", 400, {"error": HTML}, ModelRequestRejected),
    ("time-out", 408, None, ModelBusy),
    ("odd message", 400, {"error": {"message": {"nested": ["a"]}}}, ModelRequestRejected),
    ("odd code", 400, {"error": {"message": None, "code": ["x"]}}, ModelRequestRejected),
    ("odd error", 400, {"error": 5}, ModelRequestRejected),
]
ROWS = [*OPENAI, *AZURE, *ANTHROPIC, *DEEPSEEK, *QWEN, *GEMINI, *MISTRAL, *GROQ, *OPENROUTER, *LOCAL, *PROXIES]


@pytest.mark.parametrize(("status", "body", "kind"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_refusal_is_known_by_its_words_whoever_says_it(status: int, body: Any, kind: type[ModelError]) -> None:
    assert type(read_refusal(Refusal(status, body))) is kind


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_refusal_is_known_all_the_same_when_the_client_took_the_error_out_of_its_body(row: Row) -> None:
    _, status, body, kind = row
    inner = body.get("error", body) if isinstance(body, dict) else body
    assert type(read_refusal(Refusal(status, inner))) is kind


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_message_is_one_bounded_sentence_without_markup_whatever_the_body(row: Row) -> None:
    message = read_refusal(Refusal(row[1], row[2], {"x-request-id": "req-7"})).message
    assert "req-7" in message
    assert "<" not in message
    assert len(message) < 500


def test_message_can_be_stored_when_the_provider_writes_half_a_character() -> None:
    assert read_refusal(Refusal(400, error("a\ud83d"))).message.encode()


def test_message_is_bounded_when_the_provider_writes_a_book() -> None:
    assert len(read_refusal(Refusal(400, error("x" * 1_000_000))).message) < 500


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 7 "}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 99 Oct 2020 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999999 07:28:00 GMT"}, None),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "-1", "retry-after": "7"}, 7),
        ({"retry-after-ms": "inf"}, None),
    ],
)
def test_wait_is_what_the_headers_say_when_they_say_it(headers: dict[str, str], wait_s: float | None) -> None:
    assert retry_after_s(headers) == wait_s


@pytest.mark.parametrize("zone", ["GMT", "-0000", "+0000"])
def test_wait_lasts_until_the_date_when_the_header_holds_one(zone: str) -> None:
    date = formatdate(time.time() + 90, usegmt=True).replace("GMT", zone)
    wait_s = retry_after_s({"retry-after": date})
    assert wait_s is not None
    assert 85 < wait_s <= 90


@given(st.text(max_size=40) | st.from_regex(r"\w{3}, \d{1,12} Oct \d{1,12} \d{1,5}:\d{1,5}:\d{1,12} [+-]\d{1,12}"))
def test_wait_is_none_or_not_negative_whatever_the_header_holds(value: str) -> None:
    wait_s = retry_after_s({"retry-after": value})
    assert wait_s is None or 0 <= wait_s < 1e12


@pytest.mark.parametrize(
    ("message", "wait_s"),
    [
        ("Please retry in 34.07s.", 34.07),
        ("Please try again in 20ms.", 0.02),
        ("Please try again in 2m59.56s.", 179.56),
        ("Please retry after 8 seconds.", 8),
        ("Try again in 12 seconds.", 12),
        ("Please try again later.", None),
    ],
)
def test_wait_is_what_the_words_say_when_no_header_does(message: str, wait_s: float | None) -> None:
    busy = read_refusal(Refusal(429, error(message)))
    assert isinstance(busy, ModelBusy)
    assert busy.wait_s == wait_s


def test_wait_is_the_headers_when_the_words_say_another() -> None:
    busy = read_refusal(Refusal(429, error("Please retry in 34s."), {"retry-after": "2"}))
    assert isinstance(busy, ModelBusy)
    assert busy.wait_s == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "message", "code"]), inner),
    max_leaves=8,
)


@given(st.sampled_from([200, 400, 401, 404, 418, 429, 500, 599]), JSON)
def test_refusal_is_an_error_of_ours_whatever_the_body(status: int, body: Any) -> None:
    assert isinstance(read_refusal(Refusal(status, body)), ModelError)


@pytest.mark.parametrize(
    "words",
    [
        "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
        "Invalid schema for function 'book': 'oneOf' is not supported.",
        "Tool names with dots are not supported.",
        "Unknown field in tools[0].function.parameters: format",
        "tool call parser failed: unsupported token",
    ],
)
def test_tools_are_not_what_is_refused_when_something_of_them_is(words: str) -> None:
    assert not isinstance(read_refusal(Refusal(400, {"error": {"message": words}})), ModelLacksTools)


def test_key_is_masked_when_the_providers_words_are_cut_inside_it() -> None:
    key = "sk-" + "k" * 160
    error = read_refusal(Refusal(400, {"error": {"message": "x" * 230 + key}}, secret=key))
    assert "kkk" not in error.message
