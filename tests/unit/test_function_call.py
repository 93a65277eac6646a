"""The mode of `functions`: one call in a reply, each followed by its result."""

import re
from typing import Any

import pytest

from stepagent.llm.function_call import FunctionCall
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import ModelRequest
from stepagent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from tests.builders import SEARCH_SCHEMA, a_tool, call_id

QUESTION = UserMessage(text="What is new?")
MODE = FunctionCall(ModelSpec(name="m", provider_model="m", base_url="http://127.0.0.1/v1"))


def a_call_of(position: int, **changes: Any) -> ToolCall:
    return ToolCall.model_validate({"call_id": call_id(position), "name": "search", **changes})


def a_result_of(position: int, text: str, **changes: Any) -> ToolMessage:
    return ToolMessage.model_validate({"call_id": call_id(position), "name": "search", "text": text, **changes})


def sent(*messages: Message) -> Any:
    return MODE.render(ModelRequest("", messages, [a_tool()]), {})["messages"]


def test_functions_are_sent_by_alias_when_there_are_tools() -> None:
    assert MODE.render(ModelRequest("Be kind.", [QUESTION], [a_tool()]), {"search": "search_1"}) == {
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "What is new?"}],
        "functions": [{"name": "search_1", "description": "Searches.", "parameters": SEARCH_SCHEMA}],
        "function_call": "auto",
    }


def test_no_function_field_is_sent_when_there_are_no_tools() -> None:
    assert list(MODE.render(ModelRequest("", [QUESTION], ()), {})) == ["messages"]


def test_calls_are_told_one_after_the_other_when_a_reply_made_several() -> None:
    reply = AssistantMessage(text="Two looks.", calls=(a_call_of(0, arguments='{"q":"a"}'), a_call_of(1)))
    assert sent(reply, a_result_of(0, "A"), a_result_of(1, "B", is_error=True), QUESTION) == [
        {
            "role": "assistant",
            "content": "Two looks.",
            "function_call": {"name": "search", "arguments": '{"q":"a"}'},
        },
        {"role": "function", "name": "search", "content": "A"},
        {"role": "assistant", "content": None, "function_call": {"name": "search", "arguments": "{}"}},
        {"role": "function", "name": "search", "content": "Error: B"},
        {"role": "user", "content": "What is new?"},
    ]


@pytest.mark.parametrize("name", ["made.up", "ä", ""])
def test_call_and_result_bear_one_legal_name_when_it_was_made_up(name: str) -> None:
    call, result = sent(AssistantMessage(calls=(a_call_of(0, name=name),)), a_result_of(0, "No.", name=name))
    assert call["function_call"]["name"] == result["name"]
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", result["name"])


def test_fields_of_other_modes_are_not_sent_when_calls_are_replayed() -> None:
    call = a_call_of(0, provider_id="p1", extra={"signature": "x"})
    rendered = str(sent(AssistantMessage(calls=(call,)), a_result_of(0, "A")))
    assert not [word for word in ("p1", "call_1_1_0", "signature", "tool") if word in rendered]
