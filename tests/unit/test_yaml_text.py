"""YAML of the catalog: read as it is, and refused where it says something twice."""

import pytest
import yaml

from stepagent.yaml_text import read_yaml


def test_document_is_what_it_holds() -> None:
    text = "a: &x {b: [1, yes, null]}\nc: {<<: *x, d: x}\n1: one"
    assert read_yaml(text) == {"a": {"b": [1, True, None]}, "c": {"b": [1, True, None], "d": "x"}, 1: "one"}


def test_name_that_a_merge_brings_may_be_given_anew() -> None:
    assert read_yaml("a: &x {b: 1}\nc: {<<: *x, b: 2}")["c"] == {"b": 2}


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "x:\n- {a: 1, a: 1}", "x: {'a': 1, a: 2}", "1: a\n1: b"])
def test_document_is_refused_with_its_line_when_a_name_stands_twice(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match=r"(?s)stands here twice.*line"):
        read_yaml(text)


@pytest.mark.parametrize("text", ["!!python/object/apply:os.getcwd []", "a: ["])
def test_document_is_refused_when_it_is_more_or_less_than_values(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)
