"""The mode of `tools`: what is sent, and the ids that calls and results carry."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import ModelRequest, Said
from stepagent.llm.tool_choice import ToolChoice
from stepagent.messages import AssistantMessage, CallId, Message, ToolCall, ToolMessage, UserMessage
from tests.builders import SEARCH_SCHEMA, a_tool, call_id

QUESTION = UserMessage(text="What is new?")
SERVER = "http://127.0.0.1/v1"
LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Ears:
    """Hears text. Stands for `Listener`."""

    def __init__(self) -> None:
        self.heard = ""

    def text(self, fragment: str) -> None:
        self.heard += fragment

    def reasoning(self, fragment: str) -> None:
        raise AssertionError("nothing was reasoned")


def a_model(**changes: Any) -> ModelSpec:
    return ModelSpec(name="m", provider_model="m", base_url=SERVER, **changes)


def a_call_of(position: int = 0, turn: int = 1, **changes: Any) -> ToolCall:
    return ToolCall.model_validate({"call_id": call_id(position, turn), "name": "search", **changes})


def a_round(*calls: ToolCall, text: str = "", vendor: str = SERVER) -> list[Message]:
    """A reply with these calls, and a result for each."""
    results = [ToolMessage(call_id=call.call_id, name=call.name, text="found") for call in calls]
    return [AssistantMessage(text=text, calls=calls, vendor=vendor), *results]


def sent(*messages: Message, model: ModelSpec | None = None, **aliases: str) -> list[Any]:
    request = ModelRequest("", messages, [a_tool()])
    rendered = ToolChoice(model or a_model()).render(request, aliases)["messages"]
    assert isinstance(rendered, list)
    return rendered


def ids_of(rendered: list[Any]) -> tuple[list[str], list[str]]:
    """The ids of the calls and those of the results."""
    calls = [call["id"] for message in rendered for call in message.get("tool_calls", [])]
    return calls, [message["tool_call_id"] for message in rendered if message["role"] == "tool"]


def test_tools_are_sent_by_alias_when_there_are_some() -> None:
    request = ModelRequest("Be kind.", [QUESTION], [a_tool()])
    assert ToolChoice(a_model()).render(request, {"search": "search_1"}) == {
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "What is new?"}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "search_1", "description": "Searches.", "parameters": SEARCH_SCHEMA},
            }
        ],
        "tool_choice": "auto",
    }


def test_no_tool_field_is_sent_when_there_are_no_tools() -> None:
    fields = ToolChoice(a_model()).render(ModelRequest("", [QUESTION, *a_round(a_call_of())], ()), {})
    assert list(fields) == ["messages"]


def test_text_beside_calls_is_sent_when_there_is_some() -> None:
    assert sent(*a_round(a_call_of(), text="Let me see."))[0]["content"] == "Let me see."


def test_content_is_null_when_a_reply_only_called() -> None:
    assert sent(*a_round(a_call_of()))[0]["content"] is None


def test_arguments_are_sent_as_they_were_written_when_they_are_replayed() -> None:
    arguments = '{"z": 12345678901234567890123, "a": 1.10}'
    assert sent(*a_round(a_call_of(arguments=arguments)))[0]["tool_calls"][0]["function"]["arguments"] == arguments


def test_result_is_marked_when_it_is_an_error() -> None:
    failed = ToolMessage(call_id=call_id(0), name="search", text="No network.", is_error=True)
    assert sent(AssistantMessage(calls=(a_call_of(),)), failed)[1]["content"] == "Error: No network."


@pytest.mark.parametrize(
    ("provider_ids", "wire_ids"),
    [
        (["a", "b"], ["a", "b"]),
        (["search:0", "search:0"], ["search:0", "call_1_2_0"]),
        (["", ""], ["call_1_1_0", "call_1_2_0"]),
        (["has space", "ok"], ["call_1_1_0", "ok"]),
        (["x" * 65, "ok"], ["call_1_1_0", "ok"]),
    ],
)
def test_provider_id_is_sent_when_it_is_legal_and_new(provider_ids: list[str], wire_ids: list[str]) -> None:
    rounds = [a_round(a_call_of(turn=turn, provider_id=each)) for turn, each in enumerate(provider_ids, 1)]
    assert ids_of(sent(*rounds[0], *rounds[1])) == (wire_ids, wire_ids)


def test_ids_are_short_when_the_model_wants_them_so() -> None:
    model = a_model(call_id_pattern="[a-zA-Z0-9]{9}")
    calls, results = ids_of(sent(*a_round(a_call_of(0, provider_id="abcdefgh1"), a_call_of(1)), model=model))
    assert calls == results
    assert calls[0] == "abcdefgh1"
    assert re.fullmatch("[a-zA-Z0-9]{9}", calls[1])


@given(st.lists(st.lists(st.sampled_from(["", "a", "b", "ö", "call_1_1_0", "call_1_2_0"]), max_size=3), max_size=4))
def test_ids_are_unique_and_paired_in_order_whatever_the_provider_gave(rounds: list[list[str]]) -> None:
    messages: list[Message] = []
    for turn, provider_ids in enumerate(rounds, 1):
        messages += a_round(*(a_call_of(n, turn, provider_id=each) for n, each in enumerate(provider_ids)))
    calls, results = ids_of(sent(*messages))
    assert calls == results
    assert len(set(calls)) == len(calls)


def test_extra_fields_go_back_on_the_call_when_the_provider_gave_some() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "c2ln"}}, "type": "odd"}
    assert sent(*a_round(a_call_of(extra=extra)))[0]["tool_calls"] == [
        {
            "extra_content": {"google": {"thought_signature": "c2ln"}},
            "id": "call_1_1_0",
            "type": "function",
            "function": {"name": "search", "arguments": "{}"},
        }
    ]


@pytest.mark.parametrize("vendor", ["", "gemini", "http://127.0.0.1/v2"])
def test_extra_fields_and_reasoning_stay_here_when_another_server_gave_them(vendor: str) -> None:
    [reply, *results] = a_round(a_call_of(extra={"signature": "x"}), vendor=vendor)
    reasoned = reply.model_copy(update={"reasoning": "Hm."})
    rendered = str(sent(reasoned, *results, model=a_model(reasoning_field="reasoning_content")))
    assert not [word for word in ("signature", "Hm.") if word in rendered]


def test_extra_fields_go_back_when_two_models_have_one_vendor() -> None:
    rendered = sent(*a_round(a_call_of(extra={"signature": "x"}), vendor="gemini"), model=a_model(vendor="gemini"))
    assert rendered[0]["tool_calls"][0]["signature"] == "x"


def test_extra_fields_are_kept_when_a_message_is_stored_and_loaded() -> None:
    message = AssistantMessage(calls=(a_call_of(extra={"signature": "x"}),))
    assert AssistantMessage.model_validate_json(message.model_dump_json()) == message


@pytest.mark.parametrize("name", ["multi_tool.parallel", "", "7up", "ä b", "x" * 200, "a\nb"])
def test_replayed_name_is_legal_when_the_model_made_it_up(name: str) -> None:
    assert LEGAL_NAME.fullmatch(sent(*a_round(a_call_of(name=name)))[0]["tool_calls"][0]["function"]["name"])


def test_reasoning_goes_back_with_calls_when_the_model_wants_it() -> None:
    reply = AssistantMessage(reasoning="Hm.", calls=(a_call_of(),), vendor=SERVER)
    assert sent(reply, model=a_model(reasoning_field="reasoning_content"))[0]["reasoning_content"] == "Hm."


def test_reasoning_is_not_sent_when_the_model_does_not_want_it() -> None:
    assert "Hm." not in str(sent(AssistantMessage(reasoning="Hm.", calls=(a_call_of(),), vendor=SERVER)))


def test_result_keeps_its_own_id_when_its_call_is_not_there() -> None:
    orphan = ToolMessage(call_id=CallId("call_9_9_9"), name="search", text="x")
    assert sent(orphan)[0]["tool_call_id"] == "call_9_9_9"


def test_protocol_text_is_plain_text_when_the_mode_has_tools() -> None:
    ears = Ears()
    reader = ToolChoice(a_model()).reader(ModelRequest("", [QUESTION], [a_tool()]), ears)
    reader.feed('1: {"toolId":"search"}')
    assert reader.close() == Said('1: {"toolId":"search"}', "")
    assert ears.heard == '1: {"toolId":"search"}'
