"""`@tool`: what a model is told of a typed function, and the types in which the function gets what the model sent."""

import asyncio
import functools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from local.tool_rows import load_tool, rows_of_functions
from stepagent.llm.arguments import parse_arguments
from stepagent.llm.schema import Dialect, for_provider, strict_possible
from stepagent.tool_specs import ToolSpec
from stepagent.tools import ToolContext, ToolError, tool
from stepagent.tools.decorator import Tool
from tests.functions import ROOT

if TYPE_CHECKING:
    from fractions import Fraction as OnlyForTypeCheckers

Json = dict[str, Any]


class Unit(Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


class Level(IntEnum):
    LOW = 1


class Place(BaseModel):
    """Where something is."""

    title: Annotated[str, Field(title="Title of the place", description="Its name.")]
    inside: "Place | None" = None


@dataclass
class Size:
    width: int
    height: int = 1


class Options(TypedDict, total=False):
    fast: bool


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    age: int


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def of(annotation: Any) -> Tool:
    """A tool with one argument of this type, which it returns."""

    def echo(value: Any) -> Any:
        return value

    echo.__annotations__ = {"value": annotation}
    return tool(echo)


def schema_of(annotation: Any) -> Json:
    schema: Json = of(annotation).parameters["properties"]["value"]
    return schema


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (dict[int, str], {"type": "object", "additionalProperties": {"type": "string"}}),
        (set[str], {"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "const": "a"}),
        (date, {"type": "string", "format": "date"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (time, {"type": "string", "format": "time"}),
        (timedelta, {"type": "string", "format": "duration"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        (Decimal, {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        (bytes, {"type": "string", "format": "base64url"}),
        (Unit, {"$ref": "#/$defs/Unit"}),
        (Place, {"$ref": "#/$defs/Place"}),
        (Pet, {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}),
        (
            Annotated[str, Field(max_length=5, pattern="^a", description="A word.", title="T")],
            {"type": "string", "maxLength": 5, "pattern": "^a", "description": "A word."},
        ),
        (Annotated[int, Field(ge=1, lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
        (Annotated[list[str], Field(min_length=1)], {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    ],
)
def test_type_becomes_its_schema(annotation: Any, schema: Json) -> None:
    assert schema_of(annotation) == schema


def test_nested_types_are_defined_without_titles_when_they_are_models() -> None:
    parameters = of(Place).parameters
    assert parameters["$defs"] == {
        "Place": {
            "type": "object",
            "description": "Where something is.",
            "properties": {
                "title": {"type": "string", "description": "Its name."},
                "inside": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
            },
            "required": ["title"],
        }
    }


MISSING = object()  # has no JSON form


def many(
    city: str,
    /,
    unit: Unit = Unit.CELSIUS,
    until: date | None = None,
    *,
    tags: Annotated[list[str], Field(default_factory=list)],
    share: Annotated[float, Field(default=0.5)],
    level: Level = Field(Level.LOW, description="How much."),  # noqa: B008 (as people write it for FastAPI)
    marker: object = MISSING,
) -> dict[str, Any]:
    return dict(locals())


def test_parameters_are_a_closed_object_with_what_must_be_given_as_required() -> None:
    parameters = tool(many).parameters
    assert parameters.pop("$defs")
    assert parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"$ref": "#/$defs/Unit", "default": "C"},
            "until": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
            "share": {"type": "number", "default": 0.5},
            "level": {"$ref": "#/$defs/Level", "default": 1, "description": "How much."},
            "marker": {},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_function_gets_its_defaults_when_the_model_gives_only_what_it_must() -> None:
    assert tool(many).run({"city": "Oslo"}) == {
        "city": "Oslo",
        "unit": Unit.CELSIUS,
        "until": None,
        "tags": [],
        "share": 0.5,
        "level": Level.LOW,
        "marker": MISSING,
    }


def test_parameters_are_an_empty_object_when_a_function_takes_nothing() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert ping.run({}) == "pong"


@pytest.mark.parametrize("name", ["schema", "json", "copy", "model_config", "_hidden", "self", "field_0", "größe"])
def test_parameter_may_have_any_name(name: str) -> None:
    scope: Json = {}
    exec(f"def echo({name}: int): return {name}", scope)
    echo = tool(scope["echo"])
    assert list(echo.parameters["properties"]) == [name]
    assert echo.run({name: 5}) == 5
    with pytest.raises(ToolError, match=f"{name}: Input should be a valid integer"):
        echo.run({name: "many"})


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (int, 5, 5),
        (float, 5, 5.0),
        (Any, 10**30, 10**30),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (set[int], [1, 1], {1}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (date, "2030-01-02", date(2030, 1, 2)),
        (timedelta, "PT90S", timedelta(seconds=90)),
        (Decimal, 0.1, Decimal("0.1")),
        (Decimal, "0.10", Decimal("0.10")),
        (bytes, "_wA=", b"\xff\x00"),
        (bytes, "/wA=", b"\xff\x00"),
        (Path, "a/b", Path("a/b")),
        (uuid.UUID, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
        (Unit, "F", Unit.FAHRENHEIT),
        (Place, {"title": "a", "inside": {"title": "b"}}, Place(title="a", inside=Place(title="b"))),
        (Size, {"width": 2}, Size(2)),
        (Options, {"fast": True}, {"fast": True}),
        (Pet, {"kind": "dog", "age": 1}, Dog(kind="dog", age=1)),
        (list[Size], [{"width": 2}], [Size(2)]),
        (int | None, None, None),
        (Annotated[str, AfterValidator(str.upper)], "a", "A"),
    ],
)
def test_function_gets_its_types_when_arguments_are_json(annotation: Any, given: Any, value: Any) -> None:
    got = of(annotation).run({"value": given})
    assert (type(got), got) == (type(value), value)


ANNOTATIONS = [str, Any, list[int], dict[str, float], int | None, Literal["a", 1], date, Decimal, Unit, Place, Size,
               Options, Pet, tuple[int, str], list[Place], Annotated[str, Field(pattern="^a")], bytes]  # fmt: skip


@pytest.mark.parametrize("annotation", ANNOTATIONS)
@pytest.mark.parametrize("dialect", ["openai", "openai_strict", "gemini", "plain"])
def test_schema_is_taken_by_every_provider(annotation: Any, dialect: Dialect) -> None:
    parameters = of(annotation).parameters
    Draft202012Validator.check_schema(parameters)
    sent = for_provider(parameters, dialect)
    assert "$ref" not in str(sent)
    assert set(sent["properties"]) == {"value"}


@pytest.mark.parametrize("annotation", [str, list[int], int | None, Literal["a"], date, Decimal, Unit, Size, Pet])
def test_schema_can_be_strict_when_every_part_has_a_type(annotation: Any) -> None:
    assert strict_possible(of(annotation).parameters)


@pytest.mark.parametrize(
    ("annotation", "written", "value"),
    [
        (Unit, '{"value": "F"}', Unit.FAHRENHEIT),
        (Place, '{"value": {"title": "a", "inside": {"title": "b"}}}', Place(title="a", inside=Place(title="b"))),
        (Pet, '{"value": {"kind": "cat"}}', Cat(kind="cat")),
        (Decimal, '{"value": "0.10"}', Decimal("0.10")),
        (dict[int, str], '{"value": {"1": "a"}}', {1: "a"}),
    ],
)
def test_what_the_schema_admits_reaches_the_function(annotation: Any, written: str, value: Any) -> None:
    echo = of(annotation)
    row = ToolSpec(name="echo", description="", kind="lambda", target="tool_echo", parameters=echo.parameters)
    assert echo.run(parse_arguments(row, written)) == value


def test_description_is_the_docstring_less_what_it_says_of_arguments() -> None:
    @tool
    def weather(city: str, days: int = 1, unit: Annotated[str, Field(description="As typed.")] = "C") -> None:
        """Tell the weather.

        It may be late.

        Args:
            city (str): A city's name,
                as it is written there: with its accents.

            days: How many days
                  ahead.
            unit: Not this.
            gone: Was an argument once.

        Returns:
            Nothing at all.
        """

    assert weather.description == "Tell the weather.\n\nIt may be late.\n\nReturns:\n    Nothing at all."
    described = {name: schema["description"] for name, schema in weather.parameters["properties"].items()}
    assert described == {
        "city": "A city's name, as it is written there: with its accents.",
        "days": "How many days ahead.",
        "unit": "As typed.",
    }


@pytest.mark.parametrize(
    ("docstring", "description"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Args: the word, in a sentence.", "Args: the word, in a sentence."),
        ("\n    Indented.\n      More.\n    ", "Indented.\n  More."),
        ("Sums.\n\nArgs:", "Sums."),
        ("\n    Args:\n        value: A thing.\n    ", ""),
    ],
)
def test_description_is_the_docstring_dedented(docstring: str | None, description: str) -> None:
    def sums(value: int) -> int:
        return value

    sums.__doc__ = docstring
    assert tool(sums).description == description


def test_async_function_is_a_tool_like_any_other() -> None:
    @tool
    async def wait(value: int) -> int:
        return value + 1

    assert [wait.run({"value": value}) for value in (1, 2)] == [2, 3]


def test_clients_of_an_async_function_serve_its_next_call_when_they_keep_to_a_loop() -> None:
    @tool
    async def loop() -> int:
        return id(asyncio.get_running_loop())

    assert loop.run({}) == loop.run({})


def test_items_of_an_async_generator_are_its_result() -> None:
    @tool
    async def pages(count: int) -> Any:
        for page in range(count):
            yield page

    assert list(pages.run({"count": 3})) == [0, 1, 2]


def test_error_is_the_functions_own_when_it_validates_something_itself() -> None:
    @tool
    def parse(text: str) -> Place:
        return Place.model_validate_json(text)

    with pytest.raises(ValueError, match="validation error for Place"):
        parse.run({"text": "{}"})


def test_method_of_an_object_is_a_tool_without_its_object() -> None:
    class Store:
        def find(self, key: str) -> str:
            return key

    assert tool(Store().find).parameters["required"] == ["key"]


def test_wrapped_function_is_seen_as_what_it_wraps() -> None:
    def inner(value: "Unit") -> "Unit":
        return value

    @functools.wraps(inner)
    def outer(**values: Any) -> Any:
        return inner(**values)

    assert tool(outer).run({"value": "C"}) is Unit.CELSIUS


def takes_any(*cities: str) -> None: ...
def takes_named(**cities: str) -> None: ...
def takes_untyped(city) -> None: ...  # type: ignore[no-untyped-def]  # what is tested
def takes_unknown(city: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # what is tested
def takes_hidden(share: "OnlyForTypeCheckers") -> None: ...
def takes_callable(city: str, then: Callable[[], None]) -> None: ...
def takes_object(city: str, path: "functools.partial[int]") -> None: ...
def takes_pattern(city: Annotated[str, Field(pattern="(")]) -> None: ...
def takes_contexts(contexts: list[ToolContext]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (takes_any, r"takes_any .* parameter \*cities .* one list"),
        (takes_named, r"takes_named .* parameter \*\*cities .* one dict"),
        (takes_untyped, r"takes_untyped .* parameter city has no type"),
        (takes_unknown, r"takes_unknown .* parameter city has a type that cannot be found: .*Nowhere"),
        (takes_hidden, r"takes_hidden .* parameter share has a type that cannot be found"),
        (takes_callable, r"takes_callable .* parameter then has a type that no argument can have"),
        (takes_object, r"takes_object .* parameter path has a type that no argument can have"),
        (takes_pattern, r"takes_pattern .* parameter city has a type that no argument can have"),
        (takes_contexts, r"takes_contexts .* parameter contexts .* a ToolContext is a parameter of its own"),
    ],
)
def test_function_and_parameter_are_named_when_no_tool_can_be_made(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tool(function)


def test_return_type_does_not_matter_when_it_cannot_be_found() -> None:
    def found(city: str) -> "OnlyForTypeCheckers": ...  # type: ignore[empty-body]

    assert tool(found).parameters["required"] == ["city"]


@pytest.mark.parametrize(("path", "folder"), rows_of_functions(ROOT), ids=lambda path: path.stem)
def test_row_tells_a_model_what_its_function_says(path: Path, folder: Path) -> None:
    row = yaml.safe_load(path.read_text("utf-8"))
    if made := load_tool(folder):
        told = {"description": made.description, "parameters": made.parameters}
        assert {name: row.get(name) for name in told} == told, "run make tool-rows"
