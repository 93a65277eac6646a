"""Names of tools on the wire, and which tool a model means."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stepagent.errors import ToolError
from stepagent.llm.names import aliases, legal, resolve
from tests.builders import a_tool

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
LONG = "warehouse_service_production_cluster_inventory_reservation_lookup_v2"
NAMES = st.lists(st.text(min_size=1, max_size=128) | st.sampled_from(["a.b", "a_b", "查询订单", LONG]), max_size=8)


def test_alias_is_the_name_itself_when_that_is_legal() -> None:
    assert aliases(["get-item", "_x9"]) == {"get-item": "get-item", "_x9": "_x9"}


def test_alias_is_made_from_the_name_when_that_is_not_legal() -> None:
    wire = aliases(["get item", "9 lives", "查询订单", LONG])
    assert [alias[:-8] for alias in wire.values()] == ["get_item_", "_9_lives_", "tool_", LONG[:55] + "_"]


def test_alias_gives_way_when_another_tool_has_that_very_name() -> None:
    alias = aliases(["a.b"])["a.b"]
    wire = aliases(["a.b", alias])
    assert wire[alias] == alias
    assert wire["a.b"] not in {alias, "a.b"}


@given(NAMES)
def test_aliases_are_legal_and_unique_when_names_are_anything(names: list[str]) -> None:
    wire = aliases(names)
    assert set(wire) == set(names)
    assert len(set(wire.values())) == len(wire)
    assert all(LEGAL.fullmatch(alias) for alias in wire.values())


@given(NAMES, st.data())
def test_alias_stays_when_other_tools_come_and_go(names: list[str], data: st.DataObject) -> None:
    others = data.draw(st.permutations(names))
    assert {name: aliases(others)[name] for name in names} == {name: aliases([name])[name] for name in names}


@given(NAMES)
def test_tool_is_found_by_name_and_by_alias_when_it_is_offered(names: list[str]) -> None:
    for tool, alias in aliases(names).items():
        assert (resolve(tool, names), resolve(alias, names)) == (tool, tool)


@pytest.mark.parametrize(
    ("written", "tool"),
    [
        (" search_docs\n", "search_docs"),
        ("search_docs<|channel|>commentary", "search_docs"),
        ("search_docs<｜tool▁sep｜>", "search_docs"),
        ("functions.search_docs", "search_docs"),
        ("default_api.search_docs", "search_docs"),
        ("functions.search_docs<|constrain|>json", "search_docs"),
        ("Search-Docs", "search_docs"),
        ("searchDocs", "search_docs"),
        ("functions.real", "functions.real"),
        ("查询 订单", "查询订单"),
    ],
)
def test_tool_is_found_when_its_name_is_not_written_exactly(written: str, tool: str) -> None:
    assert resolve(written, ["search_docs", "get_time", "functions.real", "查询订单"]) == tool


def test_exact_name_goes_first_when_another_is_written_alike() -> None:
    assert resolve("get-item", ["get_item", "get-item"]) == "get-item"


def test_no_tool_is_guessed_when_several_are_written_alike() -> None:
    with pytest.raises(ToolError, match="get-item, get_item"):
        resolve("Get-Item", ["get_item", "get-item"])


@pytest.mark.parametrize("written", ["", "  ", "_", "<|x|>search_docs", "multi_tool_use.parallel", "\ud800"])
def test_unknown_name_is_answered_with_the_tools_when_none_is_meant(written: str) -> None:
    with pytest.raises(ToolError, match="search_docs, get_time") as refused:
        resolve(written, ["search_docs", "get_time"])
    assert refused.value.message.encode()


def test_unknown_name_is_answered_with_the_nearest_when_it_is_almost_one() -> None:
    with pytest.raises(ToolError, match=r"Perhaps you mean search_docs\."):
        resolve("serach_docs", ["search_docs", "get_time"])


def test_answer_is_short_when_name_and_list_are_long() -> None:
    with pytest.raises(ToolError) as refused:
        resolve("x" * 100_000, [f"tool_{number}" for number in range(2000)])
    assert len(refused.value.message) < 1000


@given(st.text())
def test_made_up_name_becomes_legal_when_it_is_replayed(name: str) -> None:
    assert LEGAL.fullmatch(legal(name))


@pytest.mark.parametrize(
    ("name", "replayed"),
    [("search", "search"), ("multi_tool_use.parallel", "multi_tool_use_parallel"), ("a<|channel|>b", "a"), ("1", "_1")],
)
def test_made_up_name_stays_readable_when_it_is_replayed(name: str, replayed: str) -> None:
    assert legal(name) == replayed


@pytest.mark.parametrize("name", ["查询订单", "get item (v2)", "x" * 128, LONG])
def test_tool_may_have_any_printable_name_when_it_is_catalogued(name: str) -> None:
    assert a_tool(name, target="tool_x").name == name


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "a\x00", " a", "a\u2028b", "a\u200bb"])
def test_tool_is_refused_when_its_name_cannot_be_printed(name: str) -> None:
    with pytest.raises(ValidationError, match="1 validation error for ToolSpec\nname"):
        a_tool(name, target="tool_x")
