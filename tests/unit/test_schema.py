"""Parameters of tools in the dialects of providers."""

import copy
import json
import time
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stepagent.llm.schema import Dialect, for_provider, in_order, strict_possible

DIALECTS: list[Dialect] = list(get_args(Dialect))
NOTHING = {"type": "object", "properties": {}}
WORDS = ["type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs", "not"]
WORDS += [
    "description",
    "additionalProperties",
    "patternProperties",
    "nullable",
    "x-note",
    "prefixItems",
    "if",
    "default",
]
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]
SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from([*TYPES, "#", "#/$defs/a", "#/properties/a", "a"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*WORDS, "a", "b"]), inner, max_size=5),
    max_leaves=25,
)


def an_object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def sent(part: Any, dialect: Dialect = "openai") -> Any:
    """How a required parameter with this schema is sent."""
    return for_provider(an_object(("p",), p=part), dialect)["properties"]["p"]


@pytest.mark.parametrize("dialect", ["openai", "plain", "gemini"])
@pytest.mark.parametrize(
    "parameters",
    [None, {}, True, "x", {"type": None}, {"type": "object"}, {"type": ["object", "null"]}, {"type": "array"}],
)
def test_parameters_are_an_empty_object_when_there_are_none(parameters: Any, dialect: Dialect) -> None:
    assert for_provider(parameters, dialect) == NOTHING


def test_parameters_are_closed_when_there_are_none_and_the_dialect_is_strict() -> None:
    assert for_provider(None, "openai_strict") == {**NOTHING, "required": [], "additionalProperties": False}


@pytest.mark.parametrize(
    ("part", "becomes"),
    [
        ({"type": "object"}, NOTHING),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "array", "enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}),
        (
            {"type": "array", "items": {"type": "string"}, "enum": ["a"]},
            {"type": "array", "items": {"enum": ["a"], "type": "string"}},
        ),
        ({"type": "string", "x-note": {"a": 1}, "$comment": "c"}, {"type": "string"}),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "no such type", "description": "d"}, {"description": "d"}),
        ({"type": ["string", None]}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (True, {}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"$ref": "https://elsewhere.example/schema"}, {}),
        ({"$ref": "#/$defs/none", "description": "d"}, {"description": "d"}),
    ],
)
def test_part_is_put_in_order_when_providers_would_refuse_it(part: Any, becomes: Any) -> None:
    assert sent(part) == becomes


def test_member_stays_when_its_name_is_a_word_of_json_schema() -> None:
    part = {"type": "object", "properties": {"$ref": {"type": "string"}, "x-id": {}, "enum": {"type": "integer"}}}
    assert sent(part) == part


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#/$defs/city", {"$defs": {"city": {"type": "string"}}}),
        ("#/definitions/city", {"definitions": {"city": {"type": "string"}}}),
        ("#/$defs/a~1b~0c", {"$defs": {"a/b~c": {"type": "string"}}}),
        ("#/$defs/a%20b", {"$defs": {"a b": {"type": "string"}}}),
        ("#/$defs/list/anyOf/1", {"$defs": {"list": {"anyOf": [{}, {"type": "string"}]}}}),
        ("#/$defs/one", {"$defs": {"one": {"$ref": "#/$defs/two"}, "two": {"type": "string"}}}),
    ],
)
def test_reference_is_replaced_when_it_stays_in_the_document(reference: str, definitions: dict[str, Any]) -> None:
    parameters = {**an_object(a={"$ref": reference, "description": "d"}), **definitions}
    assert for_provider(parameters, "openai") == an_object(a={"type": "string", "description": "d"})


def test_definition_takes_anything_of_its_type_when_it_is_inside_itself() -> None:
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    written = for_provider({"$ref": "#/$defs/node", "$defs": {"node": node}}, "openai")
    assert written["properties"]["kids"]["items"] == NOTHING


def test_top_has_no_alternatives_when_openai_would_refuse_them() -> None:
    one, other = an_object(("a", "c"), a={"type": "string"}), an_object(("b", "c"), b={"type": "string"})
    merged = for_provider({"type": "object", "properties": {"c": {}}, "anyOf": [one, other]}, "openai")
    assert merged == an_object(("c",), a={"type": "string"}, b={"type": "string"}, c={})


@pytest.mark.parametrize(
    ("part", "becomes"),
    [
        ({"type": "integer", "enum": [60, 1440]}, {"type": "integer", "description": "One of: 60, 1440."}),
        ({"enum": ["a", "b", None]}, {"type": "string", "enum": ["a", "b"], "nullable": True}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer", "nullable": True}),
        (
            {"anyOf": [{"const": 1}, {"type": "string"}], "description": "d"},
            {
                "anyOf": [
                    {"type": "integer", "description": "d One of: 1."},
                    {"type": "string", "description": "d"},
                ]
            },
        ),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({}, {"type": "string", "description": "Any JSON value, as text."}),
        ({"type": "object"}, {"type": "string", "description": "A JSON object, as text."}),
        ({"type": "string", "default": "a", "title": "A", "format": "uri"}, {"type": "string"}),
        (
            {"allOf": [an_object(("a",), a={"type": "string"})], "additionalProperties": False},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, {"type": "array", "items": {"type": "string"}}),
    ],
)
def test_part_is_said_in_few_words_when_it_goes_to_gemini(part: Any, becomes: Any) -> None:
    assert sent(part, "gemini") == becomes


def test_objects_are_closed_all_through_when_the_dialect_is_strict() -> None:
    parameters = an_object(("q",), q={"type": "string"}, f={"type": "object", "properties": {"y": {"type": "integer"}}})
    assert for_provider(parameters, "openai_strict") == {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "f": {
                "type": ["object", "null"],
                "properties": {"y": {"type": ["integer", "null"]}},
                "required": ["y"],
                "additionalProperties": False,
            },
        },
        "required": ["q", "f"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("part", "becomes"),
    [
        ({"enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"anyOf": [{"const": 1}, {"type": "string"}]},
         {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "string"}, {"type": "null"}]}),
    ],
)  # fmt: skip
def test_optional_part_admits_null_when_the_dialect_is_strict(part: Any, becomes: Any) -> None:
    assert for_provider(an_object(p=part), "openai_strict")["properties"]["p"] == becomes


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"type": "object"},
        {"type": "array"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {"type": "string"}}, "patternProperties": {"^b": {"type": "string"}}},
        {"anyOf": [{"type": "string"}, {"type": "object"}]},
        {"enum": ["a", 1]},
        {"$ref": "#"},
    ],
)
def test_strict_is_not_possible_when_a_part_is_open(part: Any) -> None:
    parameters = an_object(p=part)
    assert not strict_possible(parameters)
    assert for_provider(parameters, "openai_strict") == for_provider(parameters, "openai")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("word", [{"allOf": 3}, {"anyOf": 3}, {"properties": "xyz"}], ids=lambda word: next(iter(word)))
def test_schema_is_written_in_time_when_its_references_fan_out(word: dict[str, Any], dialect: Dialect) -> None:
    [(name, fan)] = word.items()
    definitions: dict[str, Any] = {}
    for level in range(60):
        below = {"$ref": f"#/$defs/d{level + 1}"}
        inside = {key: below for key in fan} if isinstance(fan, str) else [below] * fan
        definitions[f"d{level}"] = {"description": "x" * 500, name: inside}
    start = time.process_time()
    written = for_provider({"$ref": "#/$defs/d0", "$defs": definitions}, dialect)
    assert time.process_time() - start < 1
    assert len(json.dumps(written)) < 1_000_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_schema_is_written_in_time_when_each_level_has_two_types(dialect: Dialect) -> None:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(40):  # the same object in three places, as an alias of YAML makes it
        node = {"type": ["object", "array"], "properties": {"a": node}, "items": node, "not": node}
    start = time.process_time()
    for_provider(an_object(a=node), dialect)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_schema_is_written_when_it_holds_itself(dialect: Dialect) -> None:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"a": loop, "b": {"enum": [loop]}}
    assert json.dumps(for_provider(loop, dialect))


@settings(deadline=None)
@given(SCRAPS, st.sampled_from(DIALECTS))
def test_schema_is_sound_and_its_source_untouched_when_the_source_is_anything(scraps: Any, dialect: Dialect) -> None:
    before = copy.deepcopy(scraps)
    parameters = {"type": "object", "properties": {"a": scraps}, "$defs": {"a": scraps}}
    for source in (scraps, parameters):
        written = for_provider(source, dialect)
        assert written["type"] == "object"
        assert isinstance(written["properties"], dict)
        assert_fits(dialect, written)
    assert scraps == before


@given(SCRAPS)
def test_strict_schema_is_closed_when_it_is_possible(scraps: Any) -> None:
    if strict_possible(scraps):
        Draft202012Validator.check_schema(for_provider(scraps, "openai_strict"))
        assert_closed(for_provider(scraps, "openai_strict"))


def test_validator_sees_the_same_order_when_choices_of_an_array_belong_to_its_items() -> None:
    schema = in_order(an_object(a={"type": "array", "enum": ["x"]}, b={"type": "string", "enum": []}))
    assert Draft202012Validator(schema).is_valid({"a": ["x"], "b": "y"})


def assert_fits(dialect: Dialect, schema: dict[str, Any]) -> None:
    for part in parts_of(schema):
        assert not any(word.startswith(("$", "x-")) for word in part)
        if dialect == "gemini":
            assert isinstance(part.get("type"), str) != ("anyOf" in part)
            assert all(isinstance(choice, str) for choice in part.get("enum", []))
            assert "additionalProperties" not in part
            assert part.get("type") != "array" or "items" in part


def assert_closed(schema: dict[str, Any]) -> None:
    for part in parts_of(schema):
        if "properties" in part:
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])


def parts_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema and those in it, as far as each dialect may hold them."""
    inside = [*schema.get("properties", {}).values(), *schema.get("anyOf", []), *schema.get("allOf", [])]
    inside += [schema[word] for word in ("items", "additionalProperties") if isinstance(schema.get(word), dict)]
    return [schema, *(part for each in inside for part in parts_of(each))]
