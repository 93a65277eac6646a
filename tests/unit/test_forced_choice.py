"""A tool choice that is forced: on the first turn of a run, in each mode's own words, and never after."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stepagent.agents import AgentSpec
from stepagent.catalog import load_catalog
from stepagent.errors import ConfigurationError
from stepagent.llm.function_call import FunctionCall
from stepagent.llm.prompt_call import PromptCall
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import ModelRequest, Reply
from stepagent.llm.tool_choice import ToolChoice
from stepagent.messages import Message, UserMessage
from stepagent.runs import Call, Run
from stepagent.turn import run_turn
from tests.builders import a_done_call, a_run, a_tool, said

QUESTION = UserMessage(text="What is new?")
MODEL = ModelSpec(name="m", provider_model="m", base_url="http://127.0.0.1/v1")


class Model:
    """Notes what it is asked and says its replies in turn. Stands for `Ask`."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        return self.replies.pop(0)

    @property
    def choices(self) -> list[str]:
        return [request.tool_choice for request in self.requests]


def an_agent(tool_choice: str, *tools: str) -> AgentSpec:
    return AgentSpec(name="helper", instructions="Help.", tools=tools, tool_choice=tool_choice)


def a_forced_run(tool_choice: str = "search") -> Run:
    return a_run().model_copy(update={"agent": an_agent(tool_choice, "search")})


def asked(run: Run, turn: int, *replies: Reply, entries: tuple[Message | Call, ...] = (QUESTION,)) -> Model:
    model = Model(*replies)
    run_turn(run, turn, entries, model)
    return model


@pytest.mark.parametrize("tool_choice", ["auto", "required", "search"])
def test_choice_is_the_agents_on_the_first_turn(tool_choice: str) -> None:
    assert asked(a_forced_run(tool_choice), 1, said("Hi")).choices == [tool_choice]


def test_choice_is_free_when_the_tool_was_called() -> None:
    assert asked(a_forced_run(), 2, said("Hi"), entries=(QUESTION, a_done_call("found"))).choices == ["auto"]


def test_choice_stays_forced_when_the_first_reply_was_empty_and_is_asked_for_again() -> None:
    assert asked(a_forced_run(), 1, said(""), said("Hi")).choices == ["search", "search"]


def test_no_tool_is_forced_when_the_closing_answer_is_asked_for() -> None:
    [request] = asked(a_forced_run(), 31, said("Hi")).requests
    assert request.tools == ()
    assert not {"tools", "tool_choice"} & set(ToolChoice(MODEL).render(request, {}))


def rendered(mode: Any, tool_choice: str) -> dict[str, Any]:
    request = ModelRequest("Be kind.", [QUESTION], [a_tool("sé", target="tool_x")], tool_choice=tool_choice)
    fields: dict[str, Any] = mode.render(request, {"sé": "s_1"})
    return fields


@pytest.mark.parametrize(
    ("tool_choice", "sent"),
    [("auto", "auto"), ("required", "required"), ("sé", {"type": "function", "function": {"name": "s_1"}})],
)
def test_choice_is_sent_by_alias_when_tools_are(tool_choice: str, sent: Any) -> None:
    assert rendered(ToolChoice(MODEL), tool_choice)["tool_choice"] == sent


@pytest.mark.parametrize(("tool_choice", "sent"), [("auto", "auto"), ("required", "auto"), ("sé", {"name": "s_1"})])
def test_choice_is_sent_as_far_as_the_older_form_knows_it(tool_choice: str, sent: Any) -> None:
    assert rendered(FunctionCall(MODEL), tool_choice)["function_call"] == sent


def system_of(tool_choice: str) -> str:
    text: str = rendered(PromptCall(), tool_choice)["messages"][0]["content"]
    return text


@pytest.mark.parametrize(("tool_choice", "named"), [("required", "one tool"), ("sé", '"sé"')])
def test_choice_is_said_in_one_last_line_when_calls_are_text(tool_choice: str, named: str) -> None:
    free = system_of("auto")
    forced = system_of(tool_choice)
    assert forced.startswith(free)  # what a server has read of the instruction serves the following turns
    assert named in forced.removeprefix(free)
    assert len(forced.removeprefix(free).strip().splitlines()) == 1


@pytest.mark.parametrize("field", ["tool_choice", "function_call"])
def test_choice_is_not_sent_when_the_server_does_not_take_the_field(field: str) -> None:
    model = MODEL.model_copy(update={"unsupported": (field,)})
    mode = ToolChoice(model) if field == "tool_choice" else FunctionCall(model)
    assert field not in model.request(rendered(mode, "sé"))


@pytest.mark.parametrize(
    ("tool_choice", "tools"),
    [("search", ()), ("serch", ("search",)), ("required", ()), ("required", ("read_result",)), ("", ("search",))],
)
def test_choice_is_refused_when_the_agent_has_no_such_tool_to_begin_with(
    tool_choice: str, tools: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError, match="tool_choice"):
        an_agent(tool_choice, *tools)


def test_choice_names_a_tool_as_the_agent_has_it() -> None:
    row = {"name": "a", "instructions": "Help.", "tools": [{"tool": "search", "name": "find"}]}
    assert AgentSpec.model_validate({**row, "tool_choice": "find"}).tool_choice == "find"
    with pytest.raises(ValidationError):
        AgentSpec.model_validate({**row, "tool_choice": "search"})


def test_catalog_is_refused_by_file_when_an_agent_must_call_what_it_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    row = {"name": "a", "instructions": "Help.", "tool_choice": "nothing"}
    (tmp_path / "agents" / "a.yaml").write_text(json.dumps(row))
    (tmp_path / "models.yaml").write_text(json.dumps({"models": []}))
    with pytest.raises(ConfigurationError, match=r"agents/a\.yaml.*'nothing'"):
        load_catalog(tmp_path)
