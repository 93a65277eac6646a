"""JSON with the slips that models make, and what is too broken to be read."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.llm.lenient_json import MAX_DEPTH, Incomplete, Malformed, read_value, read_whole, strip_fence

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
CONTAINERS = st.lists(JSON, max_size=4) | st.dictionaries(st.text(), JSON, max_size=4)
SLIPS = "{}[]:,\"'“”‘’：，{}[]\\/*#`\n\t 0-9.eE+truefalsnNIy$\ud83d\ude00"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, -2.5e3, true, false, null, "x"]}', {"a": [1, -2500.0, True, False, None, "x"]}),
        ("{toolId:'weather', arguments:{city:'Oslo',},}", {"toolId": "weather", "arguments": {"city": "Oslo"}}),
        ("{'q': \"it's null and True\", 'limit': None}", {"q": "it's null and True", "limit": None}),
        ("[True, False, None]", [True, False, None]),
        ('/* c */ {"a": // why\n 1, # more\n "b" /* x */ : 2}', {"a": 1, "b": 2}),
        ('{"a": "// no # comment /* here */"}', {"a": "// no # comment /* here */"}),
        ("{“q”：“天气，北京”，“n”：1}", {"q": "天气，北京", "n": 1}),
        ('｛"a"：［1，2、3］｝', {"a": [1, 2, 3]}),
        ("{‘a’: ＂b＂}", {"a": "b"}),
        ('{"a": "“x”，：｛"}', {"a": "“x”，：｛"}),
        ('{"t": "a}b]c"}', {"t": "a}b]c"}),
        ('{"t": "two\nlines\tand"}', {"t": "two\nlines\tand"}),
        (r'{"path":"C:\Users\tom\new.txt"}', {"path": r"C:\Users\tom\new.txt"}),
        (r'{"re": "\d+ \"x\""}', {"re": r'\d+ "x"'}),
        (r'{"u": "\user"}', {"u": r"\user"}),
        (r"""{"q": "it\'s", 'r': 'it\'s'}""", {"q": "it's", "r": "it's"}),
        (r'{"q": "\u00e9\ud83d\ude00\/"}', {"q": "é😀/"}),
        (r'{"q": "\ud83d!"}', {"q": "\ufffd!"}),
        ('{"q": "\ud83d!", "\udc00": 1}', {"q": "\ufffd!", "\ufffd": 1}),
        ('{"id": 7300000000000000123}', {"id": 7300000000000000123}),
        ("\ufeff\u3000\n{}", {}),
        ("{$set: 1, größe: 2, a-b: 3}", {"$set": 1, "größe": 2, "a-b": 3}),
    ],
)
def test_value_is_read_when_the_slips_in_it_leave_its_meaning_clear(text: str, value: Any) -> None:
    assert read_value(text) == (value, len(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        "[Infinity]",
        "[-Infinity]",
        "[1e999]",
        '{"a": 1, "a": 2}',
        "{a: 1, 'a': 2}",
        r'{"\ud800": 1, "\ud801": 2}',
        "{a: b}",
        "[,]",
        "[1,,2]",
        "[1 2]",
        '{"a" 1}',
        '{"a": 1]',
        "{1: 2}",
        "[01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[0x10]",
        "[１２]",
        "}",
        '{"a": “x“}',
        "{‘a’: ‘it’s’}",
        '{"p": "C:\\Users\nnext"}',
        '["\\Q\t"]',
        "[" * (MAX_DEPTH + 1),
        "{a:" * 100_000,
        "[" + "9" * 5000 + "]",
        "__import__('os')",
    ],
)
def test_value_is_refused_when_its_meaning_is_not_clear(text: str) -> None:
    with pytest.raises(Malformed):
        read_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "{",
        "[1",
        "[1,",
        '{"a',
        '{"a"',
        '{"a":',
        '{"a": tr',
        '{"a": -',
        '{"a": 1e',
        "[1.",
        "{a",
        '"\\',
        "{“a",
        "[1 /",
        "[1 /* x",
        "[1 // x",
        "[1 # x",
        "[No",
        "{'a': 'b\\'",
    ],
)
def test_value_is_incomplete_when_the_text_ends_inside_it(text: str) -> None:
    with pytest.raises(Incomplete):
        read_value(text)


def test_value_ends_at_its_own_end_when_more_text_follows() -> None:
    text = 'call: {"a": {"b": "}"}} {"c": 1}'
    assert read_value(text, 5) == ({"a": {"b": "}"}}, 23)


@given(JSON)
def test_value_survives_when_it_is_written_as_json(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        read, end = read_value(text)
        assert (json.dumps(read), end) == (json.dumps(value), len(text))


@given(st.dictionaries(st.text("ab é"), SCALARS, min_size=1))
def test_object_survives_when_it_is_written_as_a_python_literal(value: dict[str, Any]) -> None:
    plain = {key: item for key, item in value.items() if not isinstance(item, float | str)}
    assert read_value(repr(plain))[0] == plain


@given(CONTAINERS, st.data())
def test_value_is_never_another_one_when_its_text_is_cut(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False)
    with pytest.raises(Incomplete):
        read_value(text[: data.draw(st.integers(0, len(text) - 1))])


@given(CONTAINERS, st.lists(st.tuples(st.integers(0, 200), st.sampled_from(SLIPS)), max_size=6))
def test_reading_ends_in_a_storable_value_or_a_refusal_when_the_text_is_damaged(
    value: Any, slips: list[tuple[int, str]]
) -> None:
    text = json.dumps(value, ensure_ascii=False)
    for place, slip in slips:
        text = text[:place] + slip + text[place + 1 :]
    assert_storable_or_refused(text)


@given(st.text() | st.text(SLIPS))
def test_reading_ends_in_a_storable_value_or_a_refusal_when_the_text_is_anything(text: str) -> None:
    assert_storable_or_refused(text)


@pytest.mark.parametrize(
    "text",
    [
        '["' + "\\" * 300_000,
        '["' + "\\Q" * 200_000 + '"]',
        "[" + "/**/" * 100_000,
        "[" + "1," * 50_000,
        "/*" * 200_000,
        "{" + "a:" * 100_000,
        "[“" + "“" * 300_000,
        "[" + " " * 500_000,
        "```" * 200_000,
        "[1" + "e" * 300_000,
    ],
)
def test_reading_takes_little_time_when_the_text_is_long_and_hostile(text: str) -> None:
    start = time.monotonic()
    assert_storable_or_refused(text)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```json{"q":"use ``` here"}```', '{"q":"use ``` here"}'),
        ('```\n{"a": 1}```\n', '{"a": 1}'),
        ('```{"a": 1}```', '{"a": 1}'),
        ('``` json {"a": 1} ```', '{"a": 1}'),
        ('````json\n{"a": "```"}\n````', '{"a": "```"}'),
        ("```json\n```json\n{}\n```\n```", "```json\n{}\n```"),
        ('{"a": "```"}', '{"a": "```"}'),
        ("", ""),
    ],
)
def test_fence_is_stripped_when_it_stands_around_the_text(text: str, inside: str) -> None:
    assert strip_fence(text) == inside


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": 1}```', ' ```JSON\n{"a": 1}\n``` \n', '\ufeff{"a": 1}\n'])
def test_whole_text_is_one_value_when_only_a_fence_or_blanks_stand_around_it(text: str) -> None:
    assert read_whole(text) == {"a": 1}


@pytest.mark.parametrize("text", ['{"a": 1} and more', '{"a": 1}{"b": 2}', '{"a": 1}}', '```json\n{"a": 1}\n``` so'])
def test_whole_text_is_refused_when_something_follows_the_value(text: str) -> None:
    with pytest.raises(Malformed):
        read_whole(text)


def assert_storable_or_refused(text: str) -> None:
    try:
        value = read_whole(text)
    except (Incomplete, Malformed):
        return
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
