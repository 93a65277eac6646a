"""Rows of the catalog: what is right, what is refused with which words, and a tool as one agent has it."""

from typing import Any

import pytest
from pydantic import ValidationError

from stepagent.agents import AgentSpec
from stepagent.errors import ToolError
from stepagent.llm.arguments import parse_arguments
from stepagent.tool_specs import ToolSpec, ToolUse
from tests.builders import a_tool

LAMBDA_ARN = "arn:aws:lambda:eu-west-1:123456789012:function:theirs"


def an_agent(*tools: Any) -> AgentSpec:
    return AgentSpec.model_validate({"name": "helper", "instructions": "Help.", "tools": tools})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "lambda", "target": ""}, "names its function"),
        ({"kind": "external_lambda", "target": "theirs"}, "names the ARN of a function"),
        ({"kind": "workflow", "target": LAMBDA_ARN}, "names the ARN of a state machine"),
        ({"kind": "agent", "target": "two words"}, "names an agent of the catalog"),
        ({"kind": "interactive", "target": "tool_x"}, "names nothing"),
        ({"kind": "http", "target": ""}, "has the field http"),
        ({"kind": "lambda", "http": {"url": "https://example.com/"}}, "has the field http"),
        ({"kind": "interactive", "target": "", "approval": "always"}, "needs no approval"),
        ({"approval": {"when": {"type": "nonsense"}}}, "not a JSON Schema"),
        ({"parameters": {"type": "array"}}, "type object"),
    ],
)
def test_row_of_a_tool_is_refused_with_the_reason(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        a_tool(**changes)


@pytest.mark.parametrize(
    ("kind", "target", "seconds"),
    [("lambda", "tool_x", 30), ("agent", "helper", 900), ("interactive", "", 86_400)],
)
def test_tool_waits_as_long_as_its_kind_takes(kind: str, target: str, seconds: int) -> None:
    row = {"name": "x", "description": "", "kind": kind, "target": target}
    assert ToolSpec.model_validate(row).timeout_s == seconds
    assert ToolSpec.model_validate({**row, "timeout_s": 5}).timeout_s == 5


def test_agent_names_a_tool_by_its_name_or_as_it_has_it() -> None:
    agent = an_agent("search", {"tool": "search", "name": "news", "bound": {"count": 3}})
    assert [use.shown_name for use in agent.tools] == ["search", "news"]


def test_agent_is_refused_when_two_of_its_tools_have_one_name() -> None:
    with pytest.raises(ValidationError, match="two tools have the name search"):
        an_agent("search", {"tool": "other", "name": "search"})


def test_agent_stays_the_same_when_it_is_written_and_read() -> None:
    agent = an_agent("search", {"tool": "search", "name": "news", "bound": {"count": 3}})
    assert AgentSpec.model_validate_json(agent.model_dump_json()) == agent


def test_bound_values_leave_the_parameters_that_the_model_sees() -> None:
    tool = ToolUse(tool="search", bound={"q": "news"}).apply(a_tool())
    assert tool.bound == {"q": "news"}
    assert list(tool.parameters["properties"]) == ["count"]
    assert "required" not in tool.parameters


def test_tool_is_renamed_and_described_as_its_agent_has_it() -> None:
    tool = ToolUse(tool="search", name="news", description="Finds news.").apply(a_tool())
    assert (tool.name, tool.description, tool.target) == ("news", "Finds news.", "tool_search")


def test_row_of_a_tool_is_not_changed_when_an_agent_has_it_otherwise() -> None:
    row = a_tool()
    before = row.model_dump_json()
    ToolUse(tool="search", bound={"q": "news"}).apply(row)
    assert row.model_dump_json() == before


def test_values_that_the_row_binds_are_bound_for_every_agent() -> None:
    tool = ToolUse(tool="search", bound={"count": 2}).apply(a_tool(bound={"q": "news"}))
    assert tool.bound == {"q": "news", "count": 2}
    assert tool.parameters["properties"] == {}


def test_tool_takes_no_arguments_but_those_that_it_declares() -> None:
    open_tool = a_tool(parameters={"type": "object", "properties": {"q": {"type": "string"}}}, bound={"tenant": 7})
    parameters = ToolUse(tool="search").apply(open_tool).parameters
    with pytest.raises(ToolError, match="'Tenant' was unexpected"):
        parse_arguments(open_tool.model_copy(update={"parameters": parameters}), '{"q": "x", "Tenant": 8}')


@pytest.mark.parametrize(
    "opening",
    [
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^x-": {}}},
        {"anyOf": [{"properties": {"other": {}}}, {}]},
    ],
)
def test_tool_takes_other_arguments_where_it_says_so(opening: dict[str, Any]) -> None:
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}, **opening}
    assert ToolUse(tool="search").apply(a_tool(parameters=parameters)).parameters == parameters
