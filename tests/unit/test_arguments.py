"""Arguments as models write them, and as tools get them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.agents import ToolSpec
from stepagent.errors import ConfigurationError, ToolError
from stepagent.llm.arguments import parse_arguments
from tests.builders import a_tool

ANYTHING = a_tool(parameters={"type": "object"})
NODE = {"allOf": [{"type": "object", "properties": {"of": {"allOf": [{"$ref": "#/$defs/node"}]}}}]}
TREE = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_arguments_are_an_empty_object_when_the_text_is_blank(text: str) -> None:
    assert parse_arguments(ANYTHING, text) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"q": "x"', "not valid JSON"),
        ('{"q": "x"} and more', "not valid JSON"),
        ('{"q": NaN}', "NaN is not JSON"),
        ('{"q": -Infinity}', "-Infinity is not JSON"),
        ('{"q": 1e999}', "not valid JSON"),
        ('{"q": "\\ud83d"}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"q": 1' + "0" * 5000 + "}", "not valid JSON"),
        ('"q"', "not a JSON object"),
        ("[]", "not a JSON object"),
        ("{}", "'q' is a required property"),
        ('{"q": 1}', "q: 1 is not of type 'string'"),
        ('{"q": "x", "count": "3"}', "count: '3' is not of type 'integer'"),
        ('{"q": "x", "other": 1}', "'other' was unexpected"),
    ],
)
def test_arguments_are_refused_with_the_reason_when_they_do_not_fit(text: str, why: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_arguments(a_tool(), text)
    assert why in refused.value.message


@pytest.mark.parametrize("text", ['{"q": "' + "x" * 100_000, '{"q": "x", "' + "k" * 100_000 + '": 1}'])
def test_refusal_is_short_when_the_arguments_are_long(text: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_arguments(a_tool(), text)
    assert len(refused.value.message) < 1500


def test_refusal_is_short_when_a_key_on_the_way_to_the_problem_is_long() -> None:
    tool = a_tool(parameters={"type": "object", "additionalProperties": {"type": "string"}})
    with pytest.raises(ToolError) as refused:
        parse_arguments(tool, '{"' + "k" * 100_000 + '": 1}')
    assert len(refused.value.message) < 1500


def test_arguments_are_an_object_or_refused_when_a_recursive_schema_meets_deep_ones() -> None:
    deep = '{"of": ' * 190 + "{}" + "}" * 190
    assert isinstance(parsed_or_refused(a_tool(parameters=TREE), deep), dict | ToolError)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"q": {"type": "no such type"}}},
        {"type": "object", "required": 5},
        {"type": "object", "properties": {"q": {"pattern": "("}}},
        {"type": "object", "properties": {"q": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"q": {"$ref": "https://elsewhere.example/schema"}}},
    ],
)
def test_tool_is_named_as_wrong_when_its_schema_is_none(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'search'"):
        parse_arguments(a_tool(parameters=schema), '{"q": "x"}')


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_arguments_come_through_unchanged_when_the_schema_allows_anything(arguments: dict[str, Any]) -> None:
    assert parse_arguments(ANYTHING, json.dumps(arguments)) == arguments


@given(st.text())
def test_arguments_are_an_object_or_refused_whatever_the_text_is(text: str) -> None:
    assert isinstance(parsed_or_refused(ANYTHING, text), dict | ToolError)


def parsed_or_refused(tool: ToolSpec, text: str) -> dict[str, Any] | ToolError:
    try:
        return parse_arguments(tool, text)
    except ToolError as error:
        return error
