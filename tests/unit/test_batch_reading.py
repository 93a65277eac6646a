"""Inputs out of files: whatever stands in a line, it is an input or a problem, and none is lost."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.batches.models import CopiedInput, SourceFormat, in_order
from stepagent.batches.reading import MAX_LINE_BYTES, read_inputs, split_lines
from stepagent.errors import InvalidRequest


def read(text: str | bytes, form: SourceFormat = "jsonl") -> list[CopiedInput]:
    return list(read_inputs([text if isinstance(text, bytes) else text.encode()], form))


def asked(inputs: list[CopiedInput]) -> list[tuple[str, str]]:
    return [(each.id, each.asked.input if each.asked else f"! {each.problem}") for each in inputs]


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def test_input_has_its_lines_own_id_or_its_number() -> None:
    text = '{"id": "a", "input": "one"}\n{"input": "two"}\n{"id": 7, "input": "three"}\n"four"\n'
    assert asked(read(text)) == [("a", "one"), ("2", "two"), ("7", "three"), ("4", "four")]


def test_blank_lines_are_no_inputs_and_count_as_lines() -> None:
    assert asked(read('\n{"input": "one"}\r\n   \n{"input": "two"}')) == [("2", "one"), ("4", "two")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{not json", "not valid JSON"),
        ('{"id": "a", "input": "   "}', "must not be blank"),
        ('{"id": "a"}', "'input': Field required"),
        ('{"id": "a", "input": 7}', "'input'"),
        ("[1, 2]", "neither a JSON object nor a text"),
        ('{"input": "x", "session_id": ""}', "'session_id'"),
        (json.dumps({"input": "x" * 200_001}), "'input'"),
        ('{"input": NaN}', "not valid JSON"),
    ],
)
def test_line_that_is_no_input_is_a_problem_and_stops_nothing(line: str, problem: str) -> None:
    bad, good = read(f'{line}\n{{"input": "good"}}\n')
    assert problem in bad.problem
    assert (good.id, good.problem) == ("2", "")


def test_bad_line_keeps_its_own_id_where_it_has_one() -> None:
    [bad] = read('{"id": "a", "input": ""}')
    assert (bad.id, bad.line) == ("a", 1)


def test_id_that_came_before_is_a_problem() -> None:
    first, second, third = read('{"id": "a", "input": "x"}\n{"id": "a", "input": "y"}\n{"id": "b", "input": "z"}')
    assert (first.problem, third.problem) == ("", "")
    assert "came before" in second.problem


def test_line_in_no_encoding_that_we_read_is_a_problem() -> None:
    [bad, good] = read(b'{"input": "\xff"}\n{"input": "good"}\n')
    assert bad.problem
    assert good.asked


def test_fields_of_the_author_are_left_alone() -> None:
    [found] = read('{"input": "x", "expected": "y"}')
    assert found.asked
    assert found.problem == ""


def test_csv_rows_are_inputs_with_quotes_commas_and_line_ends() -> None:
    text = '\ufeffid,input,note\r\na,"one, ""two""\nthree",x\r\n,four,y\r\nb,,z\r\n'
    assert asked(read(text, "csv")) == [
        ("a", 'one, "two"\nthree'),
        ("4", "four"),
        ("b", "! 'input': Field required."),
    ]


def test_csv_without_a_column_of_inputs_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'input'"):
        read("id,text\na,b\n", "csv")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_line_that_is_too_long_is_a_problem_and_the_next_one_is_read(form: SourceFormat) -> None:
    long = "x" * (MAX_LINE_BYTES + 1)
    head, good = ("id,input\n", "b,good\n") if form == "csv" else ("", '{"input": "good"}\n')
    bad, rest = read_inputs(pieces(f"{head}{long}\n{good}".encode(), 1000), form)
    assert "longer than" in bad.problem
    assert rest.asked
    assert rest.asked.input == "good"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), max_size=20), st.data())
def test_lines_are_the_same_however_the_bytes_come(lines: list[str], data: st.DataObject) -> None:
    content = "\n".join(["first", *lines, "last"]).encode()
    size = data.draw(st.integers(1, len(content)))
    assert list(split_lines(pieces(content, size))) == content.split(b"\n")


def test_ids_are_sorted_as_people_do() -> None:
    ids = ["10", "9", "item-10", "item-9", "b", "a1b", "a01c"]
    assert sorted(ids, key=in_order) == ["9", "10", "a1b", "a01c", "b", "item-9", "item-10"]


@given(st.lists(st.text(max_size=12), max_size=20))
def test_any_ids_can_be_sorted(ids: list[str]) -> None:
    assert sorted(sorted(ids, key=in_order), key=in_order) == sorted(ids, key=in_order)
