"""What a tool returned, as the model reads it."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.tools.rendering import EMPTY, split_images, to_text

LIMIT = 1000
_NOTE_BYTES = 80


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", EMPTY),
        (0, "0"),
        (0.0, "0.0"),
        (False, "false"),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        (10**30, "1" + "0" * 30),
        ({"ä": ["ö", 1]}, '{"ä":["ö",1]}'),
        ({"z": 1, "a": 2}, '{"z":1,"a":2}'),
        (date(2030, 1, 2), '"2030-01-02"'),
        (datetime(2030, 1, 2, 3, 4, tzinfo=UTC), '"2030-01-02T03:04:00Z"'),
        (Decimal("1.50"), '"1.50"'),
        (b"\xff\x00", '"_wA="'),
        ((1, 2), "[1,2]"),
        ({7}, "[7]"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        ({1: "a"}, '{"1":"a"}'),
    ],
)
def test_value_keeps_its_meaning_when_it_becomes_text(value: Any, text: str) -> None:
    assert to_text(value, LIMIT) == text


def circle() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def deep() -> list[Any]:
    inner: list[Any] = []
    for _ in range(2000):
        inner = [inner]
    return inner


@pytest.mark.parametrize("value", [object(), circle(), deep(), {"a": object()}, ["\ud800"]])
def test_value_is_refused_with_its_type_when_it_has_no_json_form(value: Any) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        to_text(value, LIMIT)


def test_text_can_be_stored_when_it_holds_half_a_character() -> None:
    assert to_text("a\ud83d", LIMIT) == "a?"


def test_text_is_whole_when_it_just_fits() -> None:
    assert to_text("ä" * 500, LIMIT) == "ä" * 500


def test_text_says_how_much_was_cut_when_it_is_too_long() -> None:
    assert to_text("x" * 1001, LIMIT).endswith("… (cut: the first 1000 of 1001 bytes)")


def test_no_character_is_cut_in_half_when_the_limit_falls_into_it() -> None:
    assert to_text("x" + "ä" * 500, LIMIT).startswith("x" + "ä" * 499 + "\n…")


@given(st.text(max_size=600) | st.lists(st.text(), max_size=20))
def test_text_is_valid_and_bounded_whatever_the_value(value: str | list[str]) -> None:
    assert 0 < len(to_text(value, 256).encode()) <= 256 + _NOTE_BYTES


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_json_means_the_same_when_it_is_read_again(value: Any) -> None:
    assert isinstance(value, str) or json.loads(to_text(value, 100_000)) == value


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def test_images_are_taken_out_and_marked_when_a_result_has_some() -> None:
    returned = [{"type": "text", "text": "Before."}, PICTURE, "plain", {"n": 1}]
    assert split_images(returned) == ('Before.\n[image]\n"plain"\n{"n":1}', ("https://example.org/a.png",))


@pytest.mark.parametrize(
    "value", ["text", None, [], [1, 2], {"type": "image_url"}, [{"type": "image_url"}], [[PICTURE]]]
)
def test_result_stays_as_it_is_when_it_is_no_list_with_an_image(value: Any) -> None:
    assert split_images(value) == (value, ())
