"""Arguments as models write them, and as tools get them."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stepagent.errors import ToolError
from stepagent.llm.arguments import parse_arguments, replay_text
from stepagent.tool_specs import ToolSpec
from tests.builders import a_tool

ANYTHING = a_tool(parameters={"type": "object"})
NODE = {"allOf": [{"type": "object", "properties": {"of": {"allOf": [{"$ref": "#/$defs/node"}]}}}]}
TREE = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
PAIR = {"type": "array", "prefixItems": [{"type": "integer"}, {}]}
PARTS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": ["number", "null"]},
    {"type": "string"},
    {"enum": [1, "1", True, None]},
    {"type": "array", "items": {"type": ["string", "array"]}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
    {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "string"}]},
    {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    {"allOf": [{"type": ["string", "integer"]}, {"not": {"const": "x"}}]},
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 3.0, 2.5, "1", "true", "null", "[]", '["a"]', '{"a": 1}', "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


def a_tool_of(part: Any, required: bool = False, **words: Any) -> ToolSpec:
    names = ["p"] if required else []
    return a_tool(parameters={"type": "object", "properties": {"p": part}, "required": names, **words})


@pytest.mark.parametrize("text", ["", " \n", "{}", "null", '""', '"{}"', "\ufeff{}", "```json\n{}\n```"])
def test_arguments_are_an_empty_object_when_the_text_says_nothing(text: str) -> None:
    assert parse_arguments(ANYTHING, text) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"q": "x"', "cut off"),
        ('{"q": "x"', "not valid JSON"),
        ('"{\\"q\\": \\"x\\"}', "cut off"),
        ('"{\\"q\\": \\"x\\""', "not a JSON object"),
        ('{"q": "x"} and more', "not valid JSON"),
        ('{"q": "x"}{"q": "x"}', "not valid JSON"),
        ('{"q": "x", "q": "y"}', "'q' stands twice"),
        ('{"q": NaN}', "NaN is not JSON"),
        ('{"q": -Infinity}', "-Infinity is not JSON"),
        ('{"q": 1e999}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"q": ' + "[" * 500 + "]" * 500 + "}", "nested too deep"),
        ('{"q": 1' + "0" * 5000 + "}", "not valid JSON"),
        ('"q"', "not a JSON object"),
        ('"\\"{}\\""', "not a JSON object"),
        ("[]", "not a JSON object"),
        ("5", "not a JSON object"),
        ("{}", "'q' is a required property"),
        ('{"q": 1}', "q: 1 is not of type 'string'"),
        ('{"q": null}', "q: None is not of type 'string'"),
        ('{"q": "x", "count": "three"}', "count: 'three' is not of type 'integer'"),
        ('{"q": "x", "count": true}', "count: True is not of type 'integer'"),
        ('{"q": "x", "other": 1}', "'other' was unexpected"),
    ],
)
def test_arguments_are_refused_with_the_reason_when_they_do_not_fit(text: str, why: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_arguments(a_tool(), text)
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("{'q': \"it's null and True\", 'count': None}", "it's null and True"),
        ('```json{"q":"use ``` here"}```', "use ``` here"),
        (r'{"q":"C:\Users\tom\new.txt"}', r"C:\Users\tom\new.txt"),
        ('"{\\"q\\": \\"a\\"}"', "a"),
        ("{“q”：“天气，北京”}", "天气，北京"),
        (r'{"q": "\ud83d and \ud83d\ude00"}', "\ufffd and 😀"),
        ('{"q": "{\\"a\\": [1]}"}', '{"a": [1]}'),
    ],
)
def test_arguments_are_read_when_the_slips_in_them_leave_the_meaning_clear(text: str, query: str) -> None:
    assert parse_arguments(a_tool(), text) == {"q": query}


@pytest.mark.parametrize(
    ("part", "written", "taken"),
    [
        ({"type": "array", "items": {"type": "string"}}, '["a","b"]', ["a", "b"]),
        ({"type": "array", "items": {"type": "integer"}}, "['1', 2,]", [1, 2]),
        ({"type": "object"}, '```{"a": 1}```', {"a": 1}),
        ({"type": "integer"}, "60", 60),
        ({"type": "integer"}, "7300000000000000123", 7300000000000000123),
        ({"type": "number"}, "-2.50", -2.5),
        ({"type": "number"}, "2", 2),
        ({"type": "boolean"}, "true", True),
        ({"type": ["integer", "null"]}, "null", None),
        ({"enum": [60, 1440]}, "60", 60),
        ({"const": True}, "true", True),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "array", "items": {"type": "integer"}}, [1.0, "2"], [1, 2]),
        (
            {"type": "object", "properties": {"n": {"type": "integer"}, "m": {}}},
            {"n": "1", "m": "1"},
            {"n": 1, "m": "1"},
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"n": "1"}, {"n": 1}),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": None}, {}),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, "[1]", [1]),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "true", True),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, "5", 5),
        (PAIR, '["1", "2"]', [1, "2"]),
        ({"type": ["string", "array"]}, "[1]", "[1]"),
        ({"type": "string"}, "60", "60"),
        ({}, "60", "60"),
        ({"type": "number"}, 3.0, 3.0),
        ({"type": "integer"}, 1e300, 1e300),
        ({"type": "array", "enum": ["a", "b"]}, ["b"], ["b"]),
        ({"type": "integer", "enum": []}, "1", 1),
        ({"type": None}, "1", "1"),
        ({"type": "string", "nullable": True}, None, None),
    ],
)
def test_value_gets_its_declared_type_when_it_was_written_in_another(part: Any, written: Any, taken: Any) -> None:
    arguments = parse_arguments(a_tool_of(part), json.dumps({"p": written}))
    assert json.dumps(arguments) == json.dumps({"p": taken})


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ({"type": "integer"}, " 60"),
        ({"type": "integer"}, "6e1"),
        ({"type": "integer"}, "60.0"),
        ({"type": "integer"}, "060"),
        ({"type": "integer"}, ""),
        ({"type": "integer"}, 2.5),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1e999"),
        ({"type": "boolean"}, "True"),
        ({"type": "boolean"}, "1"),
        ({"type": "boolean"}, 1),
        ({"type": "array"}, "a, b"),
        ({"type": "array"}, "[1] and [2]"),
        ({"type": "array"}, "[1, 2"),
        ({"type": "array"}, "60"),
        ({"type": "object"}, "[]"),
        ({"type": "string"}, 5),
    ],
)
def test_value_is_refused_when_its_declared_type_would_be_a_guess(part: Any, written: Any) -> None:
    with pytest.raises(ToolError, match="p: "):
        parse_arguments(a_tool_of(part), json.dumps({"p": written}))


def test_null_is_left_out_when_the_parameter_is_optional_and_admits_none() -> None:
    assert parse_arguments(a_tool_of({"type": "object", "properties": {}}), '{"p": null}') == {}


@pytest.mark.parametrize("part", [{"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, {}])
def test_null_stays_when_the_parameter_admits_it(part: Any) -> None:
    assert parse_arguments(a_tool_of(part), '{"p": null}') == {"p": None}


def test_null_is_refused_when_the_parameter_is_required() -> None:
    with pytest.raises(ToolError, match="p: None is not of type"):
        parse_arguments(a_tool_of({"type": "string"}, required=True), '{"p": null}')


def test_default_is_not_filled_in_when_the_model_leaves_it_out() -> None:
    assert parse_arguments(a_tool_of({"type": "string", "default": "x"}), "{}") == {}


def test_value_gets_its_type_when_that_stands_behind_a_reference() -> None:
    ids = {"type": "array", "items": {"type": "integer"}}
    tool = a_tool(parameters={"properties": {"p": {"$ref": "#/$defs/ids"}}, "$defs": {"ids": ids}})
    assert parse_arguments(tool, '{"p": "[\\"1\\"]"}') == {"p": [1]}


@given(st.sampled_from(PARTS), VALUES)
def test_value_is_the_same_when_it_fits_already(part: dict[str, Any], value: Any) -> None:
    tool = a_tool_of(part, required=True)
    if Draft202012Validator(tool.parameters).is_valid({"p": value}):
        assert parse_arguments(tool, json.dumps({"p": value})) == {"p": value}


@given(st.sampled_from(PARTS), VALUES)
def test_arguments_fit_the_schema_when_they_are_taken(part: dict[str, Any], value: Any) -> None:
    tool = a_tool_of(part)
    arguments = parsed_or_refused(tool, json.dumps({"p": value}))
    assert isinstance(arguments, ToolError) or Draft202012Validator(tool.parameters).is_valid(arguments)


def test_coercion_ends_in_time_when_alternatives_are_nested() -> None:
    part: dict[str, Any] = {"type": "integer"}
    for _ in range(7):
        inside = {"properties": {"a": part}}
        part = {"anyOf": [{"type": "object", **inside}, {"required": ["b"], **inside}]}
    start = time.process_time()
    parsed_or_refused(a_tool_of(part), '{"p": ' + '{"a": ' * 7 + '"x"' + "}" * 8)
    assert time.process_time() - start < 5


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


def test_refusal_is_short_when_the_schema_is_long() -> None:
    with pytest.raises(ToolError) as refused:
        parse_arguments(a_tool_of({"type": "string", "description": "d" * 100_000}), "[]")
    assert len(refused.value.message) < 5000


def test_refusal_can_be_stored_when_the_arguments_hold_half_a_character() -> None:
    with pytest.raises(ToolError) as refused:
        parse_arguments(a_tool(), '{"q": "\ud83d')
    assert refused.value.message.encode()


def test_arguments_are_refused_when_a_recursive_schema_meets_deep_ones() -> None:
    deep = '{"of": ' * 190 + "{}" + "}" * 190
    with pytest.raises(ToolError, match="nested too deep"):
        parse_arguments(a_tool(parameters=TREE), deep)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"q": {"type": "no such type"}}},
        {"type": "object", "required": 5},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"q": {"pattern": "("}}},
        {"type": "object", "properties": {"q": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"q": {"$ref": "https://elsewhere.example/schema"}}},
        {"type": "object", "properties": {"q": {"$ref": "#/x-own/q"}}, "x-own": {"q": {"allOf": 5}}},
        {"type": "object", "$id": "http://[", "properties": {"q": {"$ref": "a"}}},
    ],
)
def test_tool_is_named_as_wrong_when_its_schema_is_none(schema: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="'search'"):
        parse_arguments(a_tool(parameters=schema), '{"q": "x"}')


def test_call_is_refused_when_a_schema_refers_to_itself_only() -> None:
    with pytest.raises(ToolError):
        parse_arguments(a_tool_of({"$ref": "#/properties/p"}), '{"p": 1}')


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_arguments_come_through_unchanged_when_the_schema_allows_anything(arguments: dict[str, Any]) -> None:
    assert parse_arguments(ANYTHING, json.dumps(arguments)) == arguments


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_arguments_come_through_unchanged_when_they_are_encoded_twice(arguments: dict[str, Any]) -> None:
    assert parse_arguments(ANYTHING, json.dumps(json.dumps(arguments))) == arguments


@given(st.dictionaries(st.text(), JSON, max_size=4), st.data())
def test_arguments_are_refused_when_their_text_is_cut(arguments: dict[str, Any], data: st.DataObject) -> None:
    for text in (json.dumps(arguments), json.dumps(json.dumps(arguments))):
        with pytest.raises(ToolError):
            parse_arguments(ANYTHING, text[: data.draw(st.integers(1, len(text) - 1))])


@given(st.text())
def test_arguments_are_an_object_or_refused_whatever_the_text_is(text: str) -> None:
    assert isinstance(parsed_or_refused(ANYTHING, text), dict | ToolError)


@pytest.mark.parametrize("text", ['{"z":7300000000000000123,"a":[1.50,"ä"]}', ' {"a": 1e5}\n'])
def test_replay_is_letter_for_letter_when_the_text_is_a_json_object(text: str) -> None:
    assert replay_text(text, {}) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{'a': 1}",
        '{"a": 1',
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
        "[]",
        '"{}"',
        '```{"a": 1}```',
        '{"a": "\\ud800"}',
        "[" * 100_000,
    ],
)
def test_replay_is_written_anew_when_not_every_reader_would_take_the_text(text: str) -> None:
    assert replay_text(text, {"a": "ä"}) == '{"a": "ä"}'


def parsed_or_refused(tool: ToolSpec, text: str) -> dict[str, Any] | ToolError:
    try:
        return parse_arguments(tool, text)
    except ToolError as error:
        return error
