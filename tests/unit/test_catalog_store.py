"""The catalog in the record: what a deploy loads, how rows are read, changed and deleted, and what runs begin with."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from stepagent import catalog as finding
from stepagent import loading
from stepagent.agents import AgentSpec
from stepagent.api import catalog as routes
from stepagent.api.catalog import Changed, delete_row, find_row, put_row, show_row, show_rows
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.catalog import FileRow, find_agent
from stepagent.errors import (
    BodyTooLarge,
    ConfigurationError,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    RecordConflict,
    RecordUnavailable,
)
from stepagent.rows import MAX_ROW_BYTES, Catalog, Row, RowKey, RowKind, Spec, key_of
from stepagent.runs import Principal
from stepagent.store import catalog as store
from stepagent.store.catalog import Standing
from tests.builders import NOON, a_tool

MODELS = ("default", "small")
ANN = Caller(Principal("ann"), frozenset({"catalog"}))
BOB = Caller(Principal("bob"))
HELPER = RowKey("agent", "helper")
SEARCH = RowKey("tool", "search")


def an_agent(name: str = "helper", *tools: Any, **changes: Any) -> AgentSpec:
    return AgentSpec.model_validate({"name": name, "instructions": "Help.", "tools": tools, **changes})


class Shelves:
    """The catalog in memory. Stands for `stepagent.store.catalog`."""

    def __init__(self, *specs: Spec) -> None:
        self.count = 0
        self.versions: dict[RowKey, list[Row]] = {}
        self.beaten = 0  # so many writes find that somebody else was quicker
        for spec in specs:
            self.write_rows([Row(key_of(spec), 1, spec, "live", "setup", NOON)], self.count)

    def read_row(self, key: RowKey, version: int | None = None) -> Row | None:
        return next((row for row in self.versions.get(key, [])[::-1] if version in (None, row.version)), None)

    def read_rows(self, keys: Iterable[RowKey]) -> list[Row]:
        return [row for row in map(self.read_row, keys) if row]

    def list_rows(self, kind: RowKind) -> list[Row]:
        return [row for key, row in sorted(self.rows.items()) if key.kind == kind and row.spec]

    def read_standing(self) -> Standing:
        return Standing(self.count, self.rows)

    def write_rows(self, rows: Sequence[Row], changes: int) -> None:
        if self.beaten or changes != self.count:
            self.beaten -= 1
            self.count += 1
            raise RecordConflict("somebody else was quicker")
        for row in rows:
            versions = self.versions.setdefault(row.key, [])
            assert row.version == len(versions) + 1
            versions.append(row)
        self.count += 1

    @property
    def rows(self) -> dict[RowKey, Row]:
        return {key: versions[-1] for key, versions in self.versions.items()}


@pytest.fixture
def shelves(monkeypatch: pytest.MonkeyPatch) -> Shelves:
    """An agent and the tool that it has, in memory."""
    in_memory = Shelves(a_tool("search"), an_agent("helper", "search"))
    for module in (finding, routes, loading):
        for name in ("read_row", "read_rows", "list_rows", "read_standing", "write_rows"):
            monkeypatch.setattr(module, name, getattr(in_memory, name), raising=False)
    monkeypatch.setattr(routes, "load_models", lambda path: dict.fromkeys(MODELS))
    return in_memory


# ---- what a deploy loads


def files(*specs: Spec, said: str = "") -> dict[RowKey, FileRow]:
    """Files with these rows; what they say differs when `said` does."""
    return {key_of(spec): FileRow(f"{spec.name}.yaml", f"{spec!r}{said}", spec) for spec in specs}


FIRST = files(a_tool("search"), an_agent("helper", "search"))


NOTHING = Standing(0, {})


def loaded(written: Mapping[RowKey, FileRow], standing: Standing = NOTHING) -> Standing:
    """The catalog as it stands after these files were loaded."""
    rows = loading.changes(written, standing, MODELS, NOON)
    return Standing(standing.changes + 1, {**standing.rows, **{row.key: row for row in rows}})


def changed_live(standing: Standing, key: RowKey, spec: Spec | None) -> Standing:
    """The catalog as it stands after somebody put a row, or deleted it."""
    before = standing.rows.get(key)
    version, digest = (before.version + 1, before.file_digest) if before else (1, "")
    row = Row(key, version, spec, "live", "ann", NOON + timedelta(hours=1), digest)
    return Standing(standing.changes + 1, {**standing.rows, key: row})


def versions(standing: Standing) -> dict[str, tuple[int, str, bool]]:
    return {key.name: (row.version, row.origin, row.spec is not None) for key, row in standing.rows.items()}


def test_all_files_are_written_when_the_record_is_empty() -> None:
    assert versions(loaded(FIRST)) == {"search": (1, "file", True), "helper": (1, "file", True)}


def test_nothing_is_written_when_no_file_has_changed() -> None:
    assert loading.changes(FIRST, loaded(FIRST), MODELS, NOON) == []


def test_one_version_is_written_when_one_file_has_changed() -> None:
    again = loaded({**FIRST, **files(a_tool("search", timeout_s=31))}, loaded(FIRST))
    assert versions(again) == {"search": (2, "file", True), "helper": (1, "file", True)}


def test_live_change_stays_when_its_file_has_not_changed() -> None:
    standing = changed_live(loaded(FIRST), SEARCH, a_tool("search", timeout_s=5))
    assert loaded(FIRST, standing).rows == standing.rows


def test_live_change_gives_way_when_its_file_changes() -> None:
    standing = changed_live(loaded(FIRST), SEARCH, a_tool("search", timeout_s=5))
    again = loaded({**FIRST, **files(a_tool("search", timeout_s=31))}, standing)
    assert versions(again)["search"] == (3, "file", True)


def test_live_row_stays_when_it_has_no_file() -> None:
    weather = RowKey("tool", "weather")
    standing = changed_live(loaded(FIRST), weather, a_tool("weather"))
    assert loaded(FIRST, standing).rows == standing.rows


def test_live_row_gives_way_when_a_file_of_its_name_comes() -> None:
    standing = changed_live(loaded(FIRST), RowKey("tool", "weather"), a_tool("weather"))
    again = loaded({**FIRST, **files(a_tool("weather"))}, standing)
    assert versions(again)["weather"] == (2, "file", True)


def test_row_is_deleted_when_its_file_is_gone() -> None:
    again = loaded(FIRST, loaded({**FIRST, **files(a_tool("weather"))}))
    assert versions(again)["weather"] == (2, "file", False)


def test_row_stays_when_its_file_is_gone_and_somebody_changed_it_live() -> None:
    standing = loaded({**FIRST, **files(a_tool("weather"))})
    standing = changed_live(standing, RowKey("tool", "weather"), a_tool("weather", timeout_s=5))
    assert loaded(FIRST, standing).rows == standing.rows


def test_row_comes_back_when_its_file_does() -> None:
    three = {**FIRST, **files(a_tool("weather"))}
    again = loaded(three, loaded(FIRST, loaded(three)))
    assert versions(again)["weather"] == (3, "file", True)


def test_row_deleted_live_stays_deleted_when_its_file_has_not_changed() -> None:
    three = {**FIRST, **files(a_tool("weather"))}
    standing = changed_live(loaded(three), RowKey("tool", "weather"), None)
    assert loaded(three, standing).rows == standing.rows


def test_agent_and_its_tool_go_together_when_both_files_are_gone() -> None:
    four = {**FIRST, **files(a_tool("weather"), an_agent("forecaster", "weather"))}
    again = versions(loaded(FIRST, loaded(four)))
    assert (again["weather"], again["forecaster"]) == ((2, "file", False), (2, "file", False))


def test_deploy_is_refused_by_name_when_a_live_agent_needs_the_tool_whose_file_is_gone() -> None:
    standing = loaded({**FIRST, **files(a_tool("weather"))})
    standing = changed_live(standing, HELPER, an_agent("helper", "weather"))
    with pytest.raises(ConfigurationError, match=r"'helper', changed live by ann, .*tools\.0: .*'weather'"):
        loaded(FIRST, standing)


def test_deploy_is_refused_by_name_when_a_file_needs_a_tool_that_was_deleted_live() -> None:
    standing = changed_live(loaded(FIRST), HELPER, an_agent("helper"))
    standing = changed_live(standing, SEARCH, None)
    with pytest.raises(ConfigurationError, match=r"agent 'helper' is not right: tools\.0: .*'search'"):
        loaded({**FIRST, **files(an_agent("helper", "search", temperature=0))}, standing)


def test_deploy_is_refused_by_name_when_a_live_agent_names_a_model_that_is_gone() -> None:
    standing = changed_live(loaded(FIRST), HELPER, an_agent("helper", model="small"))
    with pytest.raises(ConfigurationError, match=r"'helper', changed live by ann, .*model: .*'small'"):
        loading.changes(FIRST, standing, ["default"], NOON)


# ---- changing rows


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


TOOL: dict[str, Any] = {"description": "Searches.", "kind": "lambda", "target": "tool_search"}
AGENT: dict[str, Any] = {"instructions": "Help."}


ANYHOW = Precondition()


def put(key: RowKey, precondition: Precondition = ANYHOW, **fields: Any) -> Changed:
    return put_row(key, body(**fields), precondition, ANN)


def test_row_is_created_in_version_1_when_its_name_is_new(shelves: Shelves) -> None:
    changed = put(RowKey("tool", "weather"), **TOOL)
    assert (changed.created, changed.row.version, changed.row.changed_by) == (True, 1, "ann")
    assert shelves.rows[RowKey("tool", "weather")] == changed.row


def test_version_grows_when_a_row_is_put_again(shelves: Shelves) -> None:
    changed = put(SEARCH, **TOOL, timeout_s=5)
    assert (changed.created, changed.row.version) == (False, 2)
    assert [row.version for row in shelves.versions[SEARCH]] == [1, 2]


def test_nothing_is_written_when_what_is_put_stands_so_already(shelves: Shelves) -> None:
    first = put(SEARCH, **TOOL).row
    assert put(SEARCH, name="search", **TOOL) == (first, False)


def test_deleted_row_goes_on_in_its_next_version_when_it_is_put_again(shelves: Shelves) -> None:
    put(HELPER, **AGENT)
    delete_row(SEARCH, ANYHOW, ANN)
    changed = put(SEARCH, **TOOL)
    assert (changed.created, changed.row.version) == (True, 3)


@pytest.mark.parametrize(
    ("key", "fields", "param"),
    [
        (SEARCH, {"name": "other", **TOOL}, "name"),
        (SEARCH, {**TOOL, "kind": "lamda"}, "kind"),
        (SEARCH, {**TOOL, "timeout": 5}, "timeout"),
        (SEARCH, {**TOOL, "parameters": {"properties": {"q": {"type": "txt"}}}}, "parameters.properties.q.type"),
        (SEARCH, {"description": "Asks.", "kind": "agent", "target": "nobody"}, "target"),
        (HELPER, {}, "instructions"),
        (HELPER, {**AGENT, "limits": {"max_turns": 0}}, "limits.max_turns"),
        (HELPER, {**AGENT, "tools": ["search", "nothing"]}, "tools.1"),
        (HELPER, {**AGENT, "tools": [{"tool": "nothing", "name": "search"}]}, "tools.0"),
        (HELPER, {**AGENT, "model": "gpt-0"}, "model"),
    ],
)
def test_field_is_named_when_a_row_is_wrong(shelves: Shelves, key: RowKey, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        put(key, **fields)
    assert (refused.value.http_status, refused.value.param) == (400, param)
    assert shelves.rows[key].version == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"', b'{"timeout_s": NaN}', b"\xff"])
def test_body_is_refused_when_it_is_no_json_object(shelves: Shelves, content: bytes) -> None:
    with pytest.raises(InvalidRequest):
        put_row(SEARCH, content, ANYHOW, ANN)


def test_row_is_refused_when_it_is_above_100_kb(shelves: Shelves) -> None:
    with pytest.raises(BodyTooLarge, match=str(MAX_ROW_BYTES)):
        put(SEARCH, **{**TOOL, "description": "x" * MAX_ROW_BYTES})


def test_row_is_taken_when_it_is_just_below_100_kb(shelves: Shelves) -> None:
    assert put(SEARCH, **{**TOOL, "description": "x" * (MAX_ROW_BYTES - 200)}).row.version == 2


@pytest.mark.parametrize("precondition", [Precondition('"1"'), Precondition('"7", W/"1"'), Precondition("*")])
def test_row_is_put_when_it_stands_as_the_caller_takes_for_granted(
    shelves: Shelves, precondition: Precondition
) -> None:
    assert put(SEARCH, precondition, **TOOL, timeout_s=5).row.version == 2


@pytest.mark.parametrize("precondition", [Precondition('"2"'), Precondition('"11"'), Precondition(if_none_match="*")])
def test_row_is_neither_put_nor_deleted_when_it_stands_otherwise(shelves: Shelves, precondition: Precondition) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        put(SEARCH, precondition, **TOOL, timeout_s=5)
    with pytest.raises(PreconditionFailed):
        delete_row(SEARCH, precondition, ANN)
    assert refused.value.http_status == 412
    assert shelves.rows[SEARCH].version == 1


@pytest.mark.parametrize("precondition", [Precondition('"1"'), Precondition("*")])
def test_row_is_not_created_when_the_caller_takes_for_granted_that_it_exists(
    shelves: Shelves, precondition: Precondition
) -> None:
    with pytest.raises(PreconditionFailed, match="does not exist"):
        put(RowKey("tool", "weather"), precondition, **TOOL)


def test_row_is_created_when_it_must_be_new_and_is(shelves: Shelves) -> None:
    assert put(RowKey("tool", "weather"), Precondition(if_none_match="*"), **TOOL).created


def test_precondition_is_refused_when_it_makes_no_sense_for_a_change(shelves: Shelves) -> None:
    with pytest.raises(InvalidRequest, match="If-None-Match"):
        put(SEARCH, Precondition(if_none_match='"1"'), **TOOL)


def test_change_is_made_on_what_stands_when_somebody_else_was_quicker(shelves: Shelves) -> None:
    shelves.beaten = 2
    assert put(SEARCH, **TOOL, timeout_s=5).row.version == 2


def test_change_is_given_up_when_others_are_always_quicker(shelves: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    shelves.beaten = 1_000
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(Conflict, match="try again"):
        put(SEARCH, **TOOL, timeout_s=5)


@pytest.mark.parametrize("key", [SEARCH, HELPER])
def test_nobody_changes_anything_when_the_key_lacks_the_scope(shelves: Shelves, key: RowKey) -> None:
    with pytest.raises(Forbidden, match="'catalog'"):
        put_row(key, b"", ANYHOW, BOB)
    with pytest.raises(Forbidden, match="'catalog'"):
        delete_row(key, ANYHOW, BOB)
    assert shelves.rows[key].version == 1


# ---- deleting rows


def test_tool_is_kept_and_its_agents_are_named_when_they_use_it(shelves: Shelves) -> None:
    put(RowKey("agent", "other"), **AGENT, tools=[{"tool": "search", "name": "find"}])
    with pytest.raises(Conflict, match="agent 'helper', agent 'other'") as refused:
        delete_row(SEARCH, ANYHOW, ANN)
    assert (refused.value.http_status, refused.value.error_code) == (409, "in_use")


def test_agent_is_kept_and_its_tools_are_named_when_they_ask_it(shelves: Shelves) -> None:
    put(RowKey("tool", "ask_helper"), description="Asks.", kind="agent", target="helper")
    with pytest.raises(Conflict, match="tool 'ask_helper'"):
        delete_row(HELPER, ANYHOW, ANN)


def test_versions_stay_readable_when_a_row_is_deleted(shelves: Shelves) -> None:
    delete_row(HELPER, Precondition('"1"'), ANN)
    with pytest.raises(NotFound):
        find_row(HELPER)
    assert [find_row(HELPER, version).spec is None for version in ("1", "2")] == [False, True]
    assert show_row(find_row(HELPER, "2"), BOB) == {"object": "agent", "name": "helper", "deleted": True}


def test_deletion_is_404_when_there_is_no_such_row(shelves: Shelves) -> None:
    delete_row(HELPER, ANYHOW, ANN)
    with pytest.raises(NotFound):
        delete_row(HELPER, ANYHOW, ANN)


# ---- showing rows


@pytest.mark.parametrize("version", ["0", "2", "999999"])
def test_version_is_404_when_there_is_none(shelves: Shelves, version: str) -> None:
    with pytest.raises(NotFound):
        find_row(SEARCH, version)


@pytest.mark.parametrize("version", ["", "x", "-1", "1.0", "²", "1000000"])
def test_version_is_400_when_it_is_no_number(shelves: Shelves, version: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        find_row(SEARCH, version)
    assert refused.value.param == "version"


def test_row_can_be_put_as_it_was_shown(shelves: Shelves) -> None:
    first = put(SEARCH, **TOOL, bound={"units": "metric"}).row
    assert put(SEARCH, **show_row(first, ANN)["row"]) == (first, False)


def test_caller_sees_only_what_a_model_is_told_when_it_lacks_the_scope(shelves: Shelves) -> None:
    row = put(SEARCH, **TOOL, bound={"units": "metric"}).row
    assert set(show_row(row, BOB)) == {"object", "name", "description", "kind", "parameters"}
    assert set(show_rows("tool", BOB)["data"][0]) == {"object", "name", "description", "kind", "parameters"}
    assert set(show_rows("agent", BOB)["data"][0]) == {"object", "name", "description"}


def test_list_names_rows_and_versions_in_order_when_the_caller_has_the_scope(shelves: Shelves) -> None:
    put(RowKey("tool", "add"), **TOOL)
    listed = show_rows("tool", ANN)["data"]
    assert [(row["name"], row["version"]) for row in listed] == [("add", 1), ("search", 1)]


# ---- what runs begin with


def test_agent_is_found_with_its_tools_as_it_has_them(shelves: Shelves) -> None:
    put(HELPER, **AGENT, tools=[{"tool": "search", "name": "find", "bound": {"count": 3}}, "search"])
    agent, tools, versions = find_agent("helper")
    assert versions == {"agent helper": 2, "tool search": 1}
    assert [use.shown_name for use in agent.tools] == [tool.name for tool in tools] == ["find", "search"]
    assert (tools[0].bound, list(tools[0].parameters["properties"])) == ({"count": 3}, ["q"])


def test_agents_are_listed_when_an_unknown_one_is_asked_for(shelves: Shelves) -> None:
    with pytest.raises(NotFound, match="'gpt-4'; there are: helper") as refused:
        find_agent("gpt-4")
    assert (refused.value.param, refused.value.error_code) == ("model", "model_not_found")


def test_agent_is_not_found_when_it_was_deleted(shelves: Shelves) -> None:
    delete_row(HELPER, ANYHOW, ANN)
    with pytest.raises(NotFound):
        find_agent("helper")


def test_agent_is_read_anew_when_its_tool_went_between_the_two_requests(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tool_goes(keys: Iterable[RowKey]) -> list[Row]:
        if len(shelves.versions[HELPER]) == 1:
            put(HELPER, **AGENT)
            delete_row(SEARCH, ANYHOW, ANN)
        return [row for row in shelves.read_rows(keys) if row.spec]

    monkeypatch.setattr(finding, "read_rows", tool_goes)
    agent, tools, _ = find_agent("helper")
    assert (agent.tools, tools) == ((), ())


def test_tool_is_named_when_an_agent_has_one_that_never_was(shelves: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(keys: Iterable[RowKey]) -> list[Row]:
        return []

    monkeypatch.setattr(finding, "read_rows", nothing)
    with pytest.raises(ConfigurationError, match="'helper' has tools that do not exist: search"):
        find_agent("helper")


class Hurried:
    """DynamoDB that gets to few keys of a request. Stands for its client."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.requests: list[int] = []

    def batch_get_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803  # boto3's name
        [(table, asked)] = RequestItems.items()
        keys = asked["Keys"]
        self.requests.append(len(keys))
        assert asked["ConsistentRead"]
        done, left = keys[: self.at_once], keys[self.at_once :]
        unprocessed = {table: {**asked, "Keys": left}} if left else {}
        items = [{**key, **self._row(key["sk"]["S"].removeprefix("LATEST#"))} for key in done]
        return {"Responses": {table: items}, "UnprocessedKeys": unprocessed}

    def _row(self, name: str) -> dict[str, Any]:
        [written] = store._writes(Row(RowKey("tool", name), 1, a_tool(name), "live", "ann", NOON))[1:]
        row: dict[str, Any] = written["Put"]["Item"]
        return row


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepagent.store.catalog.time.sleep", lambda seconds: None)


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(
    ("count", "at_once", "requests"), [(3, 100, [3]), (5, 2, [5, 3, 1]), (103, 100, [100, 3]), (0, 100, [])]
)
def test_rows_are_all_read_when_the_service_gets_to_some_at_a_time(
    count: int, at_once: int, requests: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried = Hurried(at_once)
    monkeypatch.setattr(store, "dynamodb", lambda: hurried)
    rows = store.read_rows(RowKey("tool", f"tool_{number}") for number in range(count))
    assert [row.key.name for row in rows] == [f"tool_{number}" for number in range(count)]
    assert hurried.requests == requests


@pytest.mark.usefixtures("no_waiting")
def test_reading_is_given_up_when_the_service_gets_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "dynamodb", lambda: Hurried(0))
    with pytest.raises(RecordUnavailable):
        store.read_rows([SEARCH])


def test_catalog_leaves_out_what_was_deleted() -> None:
    assert Catalog.of([None, a_tool()]) == ({}, {"search": a_tool()})


def test_row_is_named_when_the_code_cannot_read_it_any_more() -> None:
    with pytest.raises(ConfigurationError, match="tool 'search' is not right: kind"):
        store._spec(SEARCH, json.dumps({"name": "search", **TOOL, "kind": "lamda"}))
