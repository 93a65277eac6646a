"""What a tool returned, as the model reads it."""

import json
import re
import sqlite3
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from itertools import count
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, model_serializer

from stepagent.errors import ToolError
from stepagent.tools.plain import MAX_ITEMS
from stepagent.tools.rendering import (
    EMPTY,
    MAX_KEPT_BYTES,
    preview,
    split_images,
    to_text,
    whole_characters,
)

CALL_ID = "call_1_2_3"


class Colour(Enum):
    RED = "red"
    NONE = None


class Word(StrEnum):
    YES = "yes"


class Mixed(str, Enum):  # noqa: UP042 (people still write it)
    YES = "yes"


class Level(IntEnum):
    HIGH = 3


class Place(NamedTuple):
    x: int
    y: int


@dataclass
class Stay:
    city: str
    until: date
    at: Place


class Trip(BaseModel):
    name: str
    stays: list[Stay]
    price: Decimal
    share: float
    raw: bytes
    pin: SecretStr = SecretStr("1234")


class Own(BaseModel):
    @model_serializer
    def whole(self) -> str:
        return "as it says"


class Array:
    """Stands for what numpy and others return."""

    def tolist(self) -> list[int]:
        return [1, 2]


TRIP = Trip(
    name="n",
    stays=[Stay("Oslo", date(2030, 1, 2), Place(1, 2))],
    price=Decimal("1.10"),
    share=float("nan"),
    raw=b"\xff",
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", EMPTY),
        (Word.YES, "yes"),
        (Mixed.YES, "yes"),
        (0, "0"),
        (0.0, "0.0"),
        (False, "false"),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        ([None, "", 0, False, {}], '[null,"",0,false,{}]'),
        (10**30, "1" + "0" * 30),
        (2**53 + 1, "9007199254740993"),
        (0.1 + 0.2, "0.30000000000000004"),
        ({"ä": ["ö", 1]}, '{"ä":["ö",1]}'),
        ({"z": 1, "a": 2}, '{"z":1,"a":2}'),
        (OrderedDict(z=1, a=2), '{"z":1,"a":2}'),
        (Counter("aab"), '{"a":2,"b":1}'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        (date(2030, 1, 2), '"2030-01-02"'),
        (datetime(2030, 1, 2, 3, 4, tzinfo=UTC), '"2030-01-02T03:04:00Z"'),
        (datetime(2030, 1, 2, 3, 4), '"2030-01-02T03:04:00"'),
        (time(3, 4), '"03:04:00"'),
        (timedelta(days=1, seconds=5), '"P1DT5S"'),
        (Decimal("1.50"), '"1.50"'),
        (Decimal("0.1000000000000000000000000001"), '"0.1000000000000000000000000001"'),
        (Decimal("NaN"), '"NaN"'),
        (Fraction(1, 3), '"1/3"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Path("/a/b"), '"/a/b"'),
        (PurePosixPath("a"), '"a"'),
        (b"\xff\xfe", '"//4="'),
        (bytearray(b"a"), '"YQ=="'),
        (memoryview(b"a"), '"YQ=="'),
        (Colour.RED, '"red"'),
        (Colour.NONE, "null"),
        (Level.HIGH, "3"),
        ([Word.YES, Mixed.YES], '["yes","yes"]'),
        ((1, 2), "[1,2]"),
        (Place(1, 2), '{"x":1,"y":2}'),
        (Stay("Oslo", date(2030, 1, 2), Place(1, 2)), '{"city":"Oslo","until":"2030-01-02","at":{"x":1,"y":2}}'),
        (Own(), '"as it says"'),
        ({10, 9}, "[9,10]"),
        ({"b", "a"}, '["a","b"]'),
        ({"a", 1, None}, '["a",1,null]'),
        ({frozenset({2, 3}), frozenset({1})}, "[[1],[2,3]]"),
        (deque([1]), "[1]"),
        (range(3), "[0,1,2]"),
        ({"b": 1, "a": 2}.keys(), '["b","a"]'),
        ({"b": 1, "a": 2}.items(), '[["b",1],["a",2]]'),
        ({"b": 1, "a": 2}.values(), "[1,2]"),
        (iter([1, "a"]), '[1,"a"]'),
        (map(str, [1]), '["1"]'),
        ((word for word in [""]), '[""]'),
        (Array(), "[1,2]"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        ([float("-inf")], '["-Infinity"]'),
        ({0: "a", None: "b", True: "c", 1.5: "d"}, '{"0":"a","null":"b","true":"c","1.5":"d"}'),
        ({(1, 2): "a", date(2030, 1, 2): "b", Word.YES: "c"}, '{"[1,2]":"a","2030-01-02":"b","yes":"c"}'),
    ],
)  # fmt: skip
def test_value_keeps_its_meaning_when_it_becomes_text(value: Any, text: str) -> None:
    assert to_text(value) == text


def test_nothing_is_lost_when_keys_would_become_the_same_text() -> None:
    assert to_text({1: "number", "1": "text"}) == '[[1,"number"],["1","text"]]'
    halves = dict([("a\ud800", 1), ("a\udfff", 2)])
    assert to_text(halves) == '[["a\ufffd",1],["a\ufffd",2]]'


def test_model_is_rendered_with_all_that_it_holds_but_its_secrets() -> None:
    assert json.loads(to_text(TRIP)) == {
        "name": "n",
        "stays": [{"city": "Oslo", "until": "2030-01-02", "at": [1, 2]}],  # pydantic's own form
        "price": "1.10",
        "share": "NaN",
        "raw": "/w==",
        "pin": "**********",
    }


def test_row_of_a_database_keeps_its_names_when_it_is_returned() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    rows = connection.execute("SELECT 1 AS id, 'Oslo' AS city").fetchall()
    connection.close()
    assert to_text(rows) == '[{"id":1,"city":"Oslo"}]'


def test_big_integer_keeps_all_its_digits_when_python_would_not_print_it() -> None:
    assert to_text([-(10**5_000)]) == '["-1' + "0" * 5_000 + '"]'


def circle() -> list[Any]:
    inner: list[Any] = []
    inner.append({"again": inner})
    return inner


class Linked(BaseModel):
    other: "Linked | None" = None


@dataclass
class Node:
    next: "Node | None" = None


def linked(kind: type[Linked] | type[Node], name: str) -> Any:
    first = kind()
    setattr(first, name, first)
    return first


def nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels - 1):
        inner = [inner]
    return inner


def endless_nest() -> Iterator[Any]:
    yield endless_nest()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "type object has no JSON form"),
        ({"a": [object()]}, "type object"),
        ({object(): 1}, "type object"),
        (Stay, "type type"),
        (Stay("Oslo", date(2030, 1, 2), print), "type builtin_function_or_method"),  # type: ignore[arg-type]  # tested
        (ValueError("x"), "type ValueError"),
        (circle(), "type list holds itself"),
        (linked(Node, "next"), "type Node holds itself"),
        (linked(Linked, "other"), "type Linked"),
        (nested(101), "more than 100 levels deep"),
        (nested(5_000), "more than 100 levels deep"),
        (endless_nest(), "more than 100 levels deep"),
    ],
)
def test_model_reads_why_when_a_value_has_no_json_form(value: Any, why: str) -> None:
    with pytest.raises(ToolError, match=f"The tool ran, but its result cannot be shown: .*{why}"):
        to_text(value)


def test_value_is_rendered_when_it_is_just_not_too_deep() -> None:
    assert to_text(nested(100)) == "[" * 100 + "]" * 100


def test_value_is_rendered_when_it_holds_the_same_thing_twice() -> None:
    assert to_text([TWICE, TWICE]) == '[{"a":[]},{"a":[]}]'


TWICE: dict[str, list[int]] = {"a": []}


def test_endless_iterator_is_read_up_to_a_bound_and_the_text_says_so() -> None:
    items = json.loads(to_text(count()))
    assert items[:MAX_ITEMS] == list(range(MAX_ITEMS))
    assert items[MAX_ITEMS:] == [f"… (there is more; the first {MAX_ITEMS} items are read)"]


def test_iterators_share_one_bound_when_they_hold_one_another() -> None:
    text = to_text(count(number) for number in count())
    assert text.count(",") < 2 * MAX_ITEMS


def test_iterator_is_read_whole_when_it_has_as_many_items_as_are_read() -> None:
    assert len(json.loads(to_text(iter(range(MAX_ITEMS))))) == MAX_ITEMS


def test_error_of_a_generator_is_the_tools_own_when_it_raises() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ToolError("No more.")

    with pytest.raises(ToolError, match=r"^No more\.$"):
        to_text(failing())


@pytest.mark.parametrize(
    ("value", "text"), [("a\ud83d", "a\ufffd"), (["\ud83d\ude00"], '["😀"]'), ({"\udfff": 1}, '{"\ufffd":1}')]
)
def test_text_can_be_stored_when_it_holds_half_a_character(value: Any, text: str) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize("character", ["x", "ä", "中", "😀"])
def test_text_is_cut_between_characters_and_says_so_when_it_is_more_than_is_kept(character: str) -> None:
    size = len(character.encode())
    text = to_text(character * (MAX_KEPT_BYTES // size + 1))
    assert MAX_KEPT_BYTES - 200 < len(text.encode()) <= MAX_KEPT_BYTES
    assert re.fullmatch(rf"{character}+\n… \(cut here: of \d+ bytes no more than 20000000 are kept\)", text)


def test_text_is_whole_when_it_is_just_what_is_kept() -> None:
    assert to_text("x" * MAX_KEPT_BYTES) == "x" * MAX_KEPT_BYTES


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
KEYS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates()
SCALARS = [st.binary(), st.decimals(), st.dates(), st.datetimes(), st.timedeltas(), st.uuids(), st.fractions()]
HALVES = st.text(st.characters(categories=["Cs", "Lu"]))
ANYTHING = st.recursive(
    KEYS | st.one_of(*SCALARS) | st.complex_numbers() | HALVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.frozensets(KEYS, max_size=3),
        st.dictionaries(KEYS | HALVES, inner, max_size=3),
        st.iterables(inner, max_size=3),
    ),
)


@given(JSON)
def test_json_means_the_same_when_it_is_read_again(value: Any) -> None:
    assert isinstance(value, str) or json.loads(to_text(value)) == value


def no_bare_constant(name: str) -> None:
    raise AssertionError(f"{name} stands bare")


@given(ANYTHING)
def test_text_is_strict_json_in_utf_8_whatever_the_value(value: Any) -> None:
    text = to_text(value)
    assert text.encode()
    assert isinstance(value, str) or json.loads(text, parse_constant=no_bare_constant) is not Ellipsis


def test_preview_is_the_text_when_it_just_fits() -> None:
    assert preview("ä" * 128, 256, CALL_ID) == "ä" * 128


def test_preview_shows_both_ends_and_how_to_read_on_when_a_text_is_long() -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    shown = preview(text, 1_000, CALL_ID)
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 999\n")
    [(total, call_id, offset)] = re.findall(
        r'\[(\d+) bytes .*read_result\(call_id="(\w+)", offset_bytes=(\d+)\)', shown
    )
    assert (int(total), call_id) == (len(text), CALL_ID)
    assert shown.partition("\n… [")[0] == text[: int(offset)]


@pytest.mark.parametrize("limit_bytes", [256, 257, 1_000, 16_384])
@pytest.mark.parametrize("character", ["x", "ä", "中", "😀", "x中"])
def test_preview_uses_its_limit_and_cuts_no_character_in_half(limit_bytes: int, character: str) -> None:
    shown = preview(character * 50_000, limit_bytes, CALL_ID)
    assert limit_bytes - 16 <= len(shown.encode()) <= limit_bytes
    assert "\ufffd" not in shown


@given(st.text(max_size=2_000), st.integers(256, 1_000))
def test_preview_is_bounded_whatever_the_text(text: str, limit_bytes: int) -> None:
    assert len(preview(text, limit_bytes, "call_1000000_1000_19").encode()) <= limit_bytes


@given(st.text(), st.integers(0, 20), st.integers(0, 40))
def test_whole_characters_are_those_of_the_text_wherever_it_is_cut(text: str, start: int, length: int) -> None:
    content = text.encode()
    characters, end = whole_characters(content[start : start + length])
    assert content[: start + end].endswith(characters.encode())
    assert characters in text
    assert length - end < 4 or start + length > len(content) or not characters


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def test_images_are_taken_out_and_marked_when_a_result_has_some() -> None:
    returned = [{"type": "text", "text": "Before."}, PICTURE, "plain", {"n": 1}]
    assert split_images(returned) == ('Before.\n[image]\n"plain"\n{"n":1}', ("https://example.org/a.png",))


@pytest.mark.parametrize(
    "value", ["text", None, [], [1, 2], {"type": "image_url"}, [{"type": "image_url"}], [[PICTURE]]]
)
def test_result_stays_as_it_is_when_it_is_no_list_with_an_image(value: Any) -> None:
    assert split_images(value) == (value, ())
