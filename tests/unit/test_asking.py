"""Which model is asked, in which mode, with how much of the conversation, and what follows a refusal."""

import json
from typing import Any

import pytest

from stepagent.answer_form import AnswerForm
from stepagent.errors import (
    ConfigurationError,
    ModelBusy,
    ModelContextExceeded,
    ModelError,
    ModelFiltered,
    ModelKeyRefused,
    ModelLacksTools,
    ModelReplyUnusable,
    ModelRequestRejected,
    StepAgentError,
)
from stepagent.llm import ask as subject
from stepagent.llm.ask import Memory, Wishes, ask
from stepagent.llm.providers import Witness
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import ModelRequest, ModeName, Reply, TextReader
from stepagent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from stepagent.usage import Usage
from tests.builders import Heard, a_tool, call_id, said

QUESTION = UserMessage(text="What is new?")
REQUEST = ModelRequest("Be kind.", [QUESTION], [a_tool()])
SPENT = Usage(input_tokens=3, output_tokens=1)


class Provider:
    """Answers or fails as its script says, after it was heard to say something. Stands for `send`."""

    def __init__(self) -> None:
        self.script: list[Reply | StepAgentError] = []
        self.says = ""
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, model: ModelSpec, fields: dict[str, Any], reader: TextReader, witness: Witness) -> Reply:
        self.asked.append((model.name, fields))
        witness.text(self.says)
        answer = self.script.pop(0)
        if isinstance(answer, StepAgentError):
            raise answer
        return answer

    @property
    def models(self) -> list[str]:
        return [name for name, _ in self.asked]

    @property
    def modes(self) -> list[str]:
        return [
            "tool_choice" if "tools" in fields else "function_call" if "functions" in fields else "prompt_call"
            for _, fields in self.asked
        ]

    @property
    def sizes(self) -> list[int]:
        return [len(json.dumps(fields)) for _, fields in self.asked]


class Remembered:
    """Modes that servers refused. Stands for the record of `store.modes`."""

    def __init__(self) -> None:
        self.by_model: dict[str, set[ModeName]] = {}

    @property
    def memory(self) -> Memory:
        return Memory(
            refused=lambda model: frozenset(self.by_model.get(model.name, ())),
            refuse=lambda model, mode: self.by_model.setdefault(model.name, set()).add(mode),
        )


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    scripted = Provider()
    monkeypatch.setattr(subject, "send", scripted)
    return scripted


def a_model(name: str = "m", **changes: Any) -> ModelSpec:
    row = {"name": name, "provider_model": "m", "base_url": "http://127.0.0.1/v1"}
    return ModelSpec.model_validate({**row, **changes})


def spending(error: ModelError) -> ModelError:
    error.usage = SPENT
    return error


def asked(
    *models: ModelSpec, request: ModelRequest = REQUEST, wishes: Wishes | None = None, known: Remembered | None = None
) -> Reply:
    return ask(models or [a_model()], request, wishes or Wishes(), (known or Remembered()).memory, Heard())


@pytest.mark.parametrize(
    ("can", "mode"),
    [
        ({}, "tool_choice"),
        ({"function_call": True}, "tool_choice"),
        ({"tool_choice": False, "function_call": True}, "function_call"),
        ({"tool_choice": False}, "prompt_call"),
    ],
)
def test_mode_is_the_best_that_the_model_can_when_the_agent_names_none(
    provider: Provider, can: dict[str, Any], mode: str
) -> None:
    provider.script = [said("ok")]
    asked(a_model(**can))
    assert provider.modes == [mode]


@pytest.mark.parametrize("mode", ["tool_choice", "function_call", "prompt_call"])
def test_mode_is_the_agents_when_it_names_one(provider: Provider, mode: ModeName) -> None:
    provider.script = [said("ok")]
    asked(a_model(tool_choice=False), wishes=Wishes(mode))
    assert provider.modes == [mode]


def test_agent_that_names_a_mode_is_told_when_the_server_refuses_it(provider: Provider) -> None:
    provider.script = [ModelLacksTools("no tools")]
    known = Remembered()
    with pytest.raises(ModelLacksTools):
        asked(wishes=Wishes("tool_choice"), known=known)
    assert (len(provider.asked), known.by_model) == (1, {})


def test_protocol_is_in_the_agents_words_when_it_has_some(provider: Provider) -> None:
    provider.script = [said("ok")]
    asked(wishes=Wishes("prompt_call", "Beginne jede Antwort so."))
    assert "Beginne jede Antwort so." in provider.asked[0][1]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("can", "modes"),
    [
        ({}, ["tool_choice", "prompt_call"]),
        ({"function_call": True}, ["tool_choice", "function_call"]),
        ({"tool_choice": False, "function_call": True}, ["function_call", "prompt_call"]),
    ],
)
def test_next_mode_is_tried_and_the_refusal_remembered_when_the_server_takes_no_tools(
    provider: Provider, can: dict[str, Any], modes: list[str]
) -> None:
    known = Remembered()
    provider.script = [ModelLacksTools("no tools"), said("ok"), said("ok")]
    asked(a_model(**can), known=known)
    asked(a_model(**can), known=known)
    assert provider.modes == [*modes, modes[1]]
    assert known.by_model == {"m": {modes[0]}}


def test_text_is_the_last_mode_when_the_server_refuses_every_other(provider: Provider) -> None:
    provider.script = [ModelLacksTools("no tools"), ModelLacksTools("no functions"), said("ok")]
    asked(a_model(function_call=True))
    assert provider.modes == ["tool_choice", "function_call", "prompt_call"]


def test_refusal_is_raised_when_even_text_is_refused(provider: Provider) -> None:
    provider.script = [ModelLacksTools("no tools"), ModelLacksTools("nothing")]
    with pytest.raises(ModelLacksTools, match="nothing"):
        asked()


def test_each_model_is_known_for_its_own_refusals_when_there_are_two(provider: Provider) -> None:
    known = Remembered()
    known.by_model["m"] = {"tool_choice"}
    provider.script = [ModelBusy("busy"), said("ok")]
    asked(a_model(), a_model("other"), known=known)
    assert list(zip(provider.models, provider.modes, strict=True)) == [("m", "prompt_call"), ("other", "tool_choice")]


def test_reply_names_whose_server_gave_it_when_it_comes(provider: Provider) -> None:
    provider.script = [ModelBusy("busy"), said("ok")]
    assert asked(a_model(), a_model("other", vendor="them")).vendor == "them"


FAILURES = [ModelBusy, ModelKeyRefused, ModelRequestRejected, ModelReplyUnusable, ModelFiltered, ModelContextExceeded]


@pytest.mark.parametrize("kind", FAILURES)
def test_models_are_asked_in_order_when_those_before_fail(provider: Provider, kind: type[ModelError]) -> None:
    provider.script = [kind("first"), kind("second"), said("ok")]
    reply = asked(a_model("a"), a_model("b"), a_model("c"), a_model("d"))
    assert (reply.text, provider.models) == ("ok", ["a", "b", "c"])


@pytest.mark.parametrize("kind", [ModelReplyUnusable, ModelFiltered, ModelRequestRejected])
def test_no_other_model_is_asked_when_something_was_seen(provider: Provider, kind: type[ModelError]) -> None:
    provider.says, provider.script = "Hel", [kind("broken off")]
    with pytest.raises(kind, match="broken off"):
        asked(a_model("a"), a_model("b"))
    assert provider.models == ["a"]


@pytest.mark.parametrize("kind", FAILURES)
def test_next_model_is_asked_when_what_was_said_is_shown_to_nobody_before_it_has_its_form(
    provider: Provider, kind: type[ModelError]
) -> None:
    provider.says, provider.script = "Hel", [kind("broken off"), said("ok")]
    heard, formed = Heard(), REQUEST._replace(form=AnswerForm())
    reply = ask([a_model("a"), a_model("b")], formed, Wishes(), Remembered().memory, heard)
    assert (reply.text, provider.models, heard.texts) == ("ok", ["a", "b"], [])


def test_error_is_the_last_models_when_all_fail(provider: Provider) -> None:
    provider.script = [ModelKeyRefused("first"), ModelBusy("second", 7)]
    with pytest.raises(ModelBusy, match="second") as error:
        asked(a_model("a"), a_model("b"))
    assert error.value.wait_s == 7


def test_tokens_of_every_attempt_count_when_one_succeeds(provider: Provider) -> None:
    provider.script = [spending(ModelBusy("a")), spending(ModelReplyUnusable("b")), said("ok")]
    usage = asked(a_model("a"), a_model("b"), a_model("c")).usage
    assert (usage.input_tokens, usage.output_tokens) == (10 + 2 * 3, 5 + 2 * 1)


def test_tokens_of_every_attempt_count_when_all_fail(provider: Provider) -> None:
    provider.script = [spending(ModelBusy("a")), spending(ModelBusy("b"))]
    with pytest.raises(ModelBusy) as error:
        asked(a_model("a"), a_model("b"))
    assert (error.value.usage.input_tokens, error.value.usage.output_tokens) == (6, 2)


def a_long_conversation(rounds: int, chars: int = 3_000) -> list[Message]:
    messages: list[Message] = []
    for number in range(rounds):
        messages += [UserMessage(text=f"{number} " + "u" * chars), AssistantMessage(text="a" * chars)]
    return [*messages, QUESTION]


def test_smaller_request_is_sent_once_when_the_provider_says_that_it_was_too_long(provider: Provider) -> None:
    provider.script = [spending(ModelContextExceeded("too long")), said("ok")]
    reply = asked(request=REQUEST._replace(messages=a_long_conversation(8)))
    first, second = provider.sizes
    assert second < 0.7 * first
    assert reply.usage.input_tokens == 10 + 3
    assert provider.asked[1][1]["messages"][-1]["content"] == QUESTION.text


def test_smaller_request_is_sent_when_the_context_is_smaller_than_its_row_says(provider: Provider) -> None:
    provider.script = [ModelContextExceeded("too long"), said("ok")]
    asked(a_model(context_tokens=1_000_000), request=REQUEST._replace(messages=a_long_conversation(8)))
    assert provider.sizes[1] < 0.7 * provider.sizes[0]


def test_error_is_raised_when_the_smaller_request_is_too_long_as_well(provider: Provider) -> None:
    provider.script = [spending(ModelContextExceeded("too long")), spending(ModelContextExceeded("still")), said("no")]
    with pytest.raises(ModelContextExceeded, match="still") as error:
        asked(request=REQUEST._replace(messages=a_long_conversation(8)))
    assert (len(provider.asked), error.value.usage.input_tokens) == (2, 6)


def test_same_request_is_never_sent_twice_when_nothing_can_be_left_out(provider: Provider) -> None:
    provider.script = [ModelContextExceeded("too long")]
    with pytest.raises(ModelContextExceeded):
        asked()
    assert len(provider.asked) == 1


def test_conversation_is_cut_before_it_is_sent_when_it_does_not_fit(provider: Provider) -> None:
    provider.script = [said("ok")]
    asked(a_model(context_tokens=8_192), request=REQUEST._replace(messages=a_long_conversation(20)))
    assert provider.sizes[0] < 3 * (8_192 - 4_096)


def test_system_and_tools_count_when_the_conversation_is_cut(provider: Provider) -> None:
    provider.script = [said("ok"), said("ok")]
    request = REQUEST._replace(messages=a_long_conversation(20))
    asked(a_model(), request=request)
    asked(a_model(), request=request._replace(system="s" * 30_000, tools=[a_tool(description="d" * 30_000)]))
    assert provider.sizes[1] <= 3 * (32_768 - 4_096)
    assert len(provider.asked[1][1]["messages"]) < len(provider.asked[0][1]["messages"])


MODES: list[ModeName] = ["tool_choice", "function_call", "prompt_call"]


@pytest.mark.parametrize("mode", MODES)
def test_closing_words_come_last_and_the_question_stays_when_the_work_was_long(
    provider: Provider, mode: ModeName
) -> None:
    messages: list[Message] = [*a_long_conversation(3), QUESTION]
    for turn in range(30):
        calls = (ToolCall(call_id=call_id(0, turn), name="search", arguments='{"q": "x"}'),)
        found = ToolMessage(call_id=call_id(0, turn), name="search", text="found " * 1_000)
        messages += [AssistantMessage(calls=calls), found]
    provider.script = [said("ok")]
    request = REQUEST._replace(messages=messages, tools=(), closing="Answer now.")
    asked(a_model(context_tokens=16_384), request=request, wishes=Wishes(mode))
    sent = provider.asked[0][1]["messages"]
    assert sent[-1]["content"].endswith("Answer now.")
    assert sent[1]["content"].startswith(QUESTION.text)


def test_agents_wishes_are_sent_when_it_has_some(provider: Provider) -> None:
    provider.script = [said("ok")]
    asked(wishes=Wishes(fields={"temperature": 0, "max_tokens": 5}))
    fields = provider.asked[0][1]
    assert (fields["temperature"], fields["max_tokens"]) == (0, 5)


def test_asking_no_model_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="no model"):
        ask([], REQUEST, Wishes(), Remembered().memory, Heard())


def test_loop_waits_for_the_first_model_when_its_fallback_cannot_help(provider: Provider) -> None:
    provider.script = [ModelBusy("busy", 3), ModelKeyRefused("no key")]
    with pytest.raises(ModelBusy) as failure:
        asked(a_model("a"), a_model("b"))
    assert failure.value.wait_s == 3


def test_fallback_is_passed_over_when_it_is_not_set_up(provider: Provider) -> None:
    provider.script = [ModelBusy("busy"), ConfigurationError("no secret"), said("ok")]
    assert asked(a_model("a"), a_model("b"), a_model("c")).text == "ok"


def test_no_mode_is_given_up_when_no_tool_was_offered(provider: Provider) -> None:
    known = Remembered()
    provider.script = [ModelLacksTools("no tools")]
    with pytest.raises(ModelLacksTools):
        asked(request=REQUEST._replace(tools=()), known=known)
    assert known.by_model == {}
