"""The catalog's files: the repository's own rows, and how wrong rows are named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from stepagent.agents import AgentSpec, Limits
from stepagent.catalog import load_catalog, read_files
from stepagent.errors import ConfigurationError
from stepagent.llm.registry import find_model, load_models
from stepagent.rows import RowKey
from stepagent.tool_specs import ToolSpec
from tests.builders import a_tool
from tests.functions import ROOT

AGENT = {"name": "helper", "instructions": "Help.", "tools": ["search"]}
TOOL = {"name": "search", "description": "Searches.", "kind": "lambda", "target": "tool_search"}
MODEL = {"name": "default", "provider_model": "m", "base_url": "http://127.0.0.1/v1"}

Lay = Callable[..., Path]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """Writes a catalog with one agent and one tool, and files in their place or beside them."""

    def write(**files: object) -> Path:
        rows: dict[str, object] = {"agents/helper": AGENT, "tools/search": TOOL, "models": {"models": [MODEL]}}
        for name, row in (rows | {name.replace("__", "/"): row for name, row in files.items()}).items():
            path = tmp_path / f"{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(row if isinstance(row, str) else yaml.safe_dump(row))
        return tmp_path

    return write


def test_repositorys_catalog_is_right_when_it_is_read() -> None:
    catalog = load_catalog(ROOT / "catalog")
    assert catalog.agents
    for agent in catalog.agents.values():
        assert [tool.name for tool in catalog.tools_of(agent)] == [
            *(use.shown_name for use in agent.tools),
            "read_result",
        ]


def test_repositorys_tools_have_schemas_when_they_are_read() -> None:
    for tool in load_catalog(ROOT / "catalog").tools.values():
        Draft202012Validator.check_schema(tool.parameters)
        assert tool.parameters["type"] == "object"


def test_repositorys_agents_name_models_when_they_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPAGENT_MODEL", "m")
    copied = tmp_path / "models.yaml"  # a path of its own, since models are read once a process
    copied.write_text((ROOT / "catalog" / "models.yaml").read_text())
    for agent in load_catalog(ROOT / "catalog").agents.values():
        assert find_model(agent.model, copied).provider_model == "m"


@pytest.mark.parametrize(
    "row",
    [
        "name: [",
        "",
        "- a list",
        {**AGENT, "instructons": "typed wrong"},
        {**AGENT, "name": "has spaces"},
        {**AGENT, "name": "ends\n"},
        {**AGENT, "instructions": 5},
        {**AGENT, "temperature": 3},
        {**AGENT, "limits": {"max_turns": 0}},
        {**AGENT, "limits": {"max_calls_per_turn": 21}},
        {**AGENT, "limits": {"max_turn": 5}},
        {**AGENT, "tools": ["search", "nothing"]},
        {**AGENT, "tools": ["search", "search"]},
    ],
)
def test_agent_is_named_when_its_row_is_wrong(lay: Lay, row: object) -> None:
    directory = lay(agents__wrong=row)
    with pytest.raises(ConfigurationError, match=r"wrong|helper"):
        load_catalog(directory)


@pytest.mark.parametrize(
    "row",
    [
        "kind: lambda",
        {**TOOL, "kind": "lamda"},
        {**TOOL, "name": "x" * 129},
        {**TOOL, "name": ""},
        {**TOOL, "name": " padded"},
        {**TOOL, "name": "two\nlines"},
        {**TOOL, "target": ""},
        {**TOOL, "target": "tool search"},
        {**TOOL, "target": "x" * 65},
        {**TOOL, "parameters": {"type": "array"}},
        {**TOOL, "parameters": {"type": "objekt"}},
        {**TOOL, "timeout_s": 0},
        {**TOOL, "result_limit_bytes": 100_000},
        {**TOOL, "description": None},
        {**TOOL, "extra": 1},
    ],
)
def test_tool_is_named_when_its_row_is_wrong(lay: Lay, row: object) -> None:
    directory = lay(tools__wrong=row)
    with pytest.raises(ConfigurationError, match=r"tools/wrong\.yaml"):
        load_catalog(directory)


def test_wrong_file_is_named_when_it_is_not_utf_8(lay: Lay) -> None:
    directory = lay()
    (directory / "tools" / "wrong.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ConfigurationError, match=r"tools/wrong\.yaml"):
        load_catalog(directory)


def test_both_names_are_refused_when_two_files_have_one_row(lay: Lay) -> None:
    directory = lay(tools__other=TOOL)
    with pytest.raises(ConfigurationError, match="'search'"):
        load_catalog(directory)


def test_directory_is_named_when_there_is_no_catalog(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        load_catalog(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "row", "field"),
    [
        ("agents__wrong", {**AGENT, "name": "wrong", "tools": ["search", "nothing"]}, "tools.1: .*'nothing'"),
        ("agents__wrong", {**AGENT, "name": "wrong", "model": "gpt-0"}, "model: .*'gpt-0', it has default"),
        ("tools__wrong", {**TOOL, "name": "wrong", "kind": "agent", "target": "nobody"}, "target: .*'nobody'"),
        (
            "tools__wrong",
            {**TOOL, "name": "wrong", "parameters": {"properties": {"q": {"type": "txt"}}}},
            r"parameters\.properties\.q\.type: not a JSON Schema",
        ),
        ("tools__wrong", {**TOOL, "name": "wrong", "description": "x" * 100_000}, "it: has 100072 bytes"),
    ],
)
def test_file_and_field_are_named_when_a_row_does_not_fit(lay: Lay, file: str, row: object, field: str) -> None:
    directory = lay(**{file: row})
    with pytest.raises(ConfigurationError, match=rf"{file.replace('__', '/')}\.yaml is not right: {field}"):
        load_catalog(directory)


def test_agent_may_be_asked_by_its_own_tool_when_both_are_files(lay: Lay) -> None:
    directory = lay(tools__ask={**TOOL, "name": "ask", "kind": "agent", "target": "helper"})
    assert load_catalog(directory).tools["ask"].target == "helper"


def test_digest_stays_when_only_a_comment_changes(lay: Lay) -> None:
    before = read_files(lay())
    after = read_files(lay(tools__search=f"# searches\n{yaml.safe_dump(TOOL)}\n"))
    assert before == after


def test_digest_changes_when_a_file_says_something_else(lay: Lay) -> None:
    before = read_files(lay())
    after = read_files(lay(tools__search={**TOOL, "timeout_s": 31}))
    changed = {key for key in before if before[key].digest != after[key].digest}
    assert changed == {RowKey("tool", "search")}


@pytest.mark.parametrize(
    "rows",
    [
        "a: 1",
        "",
        "[",
        [MODEL],
        {"models": None},
        {"models": [5]},
        {"models": ["default"]},
        {"models": [{**MODEL, "base": "typed wrong"}]},
        {"models": [{"name": "default", "base_url": "http://127.0.0.1"}]},
        {"models": [{**MODEL, "idle_timeout_s": 0}]},
        {"models": [{**MODEL, "output_tokens": 40_000}]},
        {"models": [{**MODEL, "call_id_pattern": "["}]},
        {"models": [{**MODEL, "provider": "nobody"}]},
        {"models": [{**MODEL, "fallbacks": ["nobody"]}]},
        {"models": [{**MODEL, "provider": "p"}], "providers": None},
        {"models": [{**MODEL, "provider": "p"}], "providers": {"p": 5}},
        {"models": [MODEL, MODEL]},
    ],
)
def test_list_of_models_is_refused_when_a_row_is_wrong(lay: Lay, rows: object) -> None:
    directory = lay(models=rows)
    with pytest.raises(ConfigurationError, match=r"models\.yaml"):
        load_models(directory / "models.yaml")


def test_list_of_models_is_refused_when_it_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_models(tmp_path / "models.yaml")


def test_models_are_listed_when_an_unknown_one_is_asked_for(lay: Lay) -> None:
    with pytest.raises(ConfigurationError, match="it has default"):
        find_model("gpt", lay() / "models.yaml")


@pytest.mark.parametrize(
    "value", ["llama3.1:8b", "@cf/meta/llama-3", "4", "null", "a: b", "x # y", "{", '"quoted"', "'"]
)
def test_model_is_called_as_the_environment_says_whatever_it_is(
    lay: Lay, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("STEPAGENT_MODEL", value)
    rows = "models:\n- name: default\n  base_url: http://${HOST:-here}/v1\n  provider_model: ${STEPAGENT_MODEL}\n"
    [model] = load_models(lay(models=rows) / "models.yaml").values()
    assert (model.provider_model, model.base_url) == (value, "http://here/v1")


def test_key_is_none_when_the_environment_names_no_secret(lay: Lay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL_API_KEY_SECRET_ARN", raising=False)
    monkeypatch.setenv("STEPAGENT_MODEL", "m")
    directory = lay(models=(ROOT / "catalog" / "models.yaml").read_text())
    assert load_models(directory / "models.yaml")["default"].api_key_secret == ""


HISTORY_EVENTS = 25_000  # Step Functions ends an execution that has more
PER_TURN, PER_CALL = 11, 9  # Think 5, Decide 2, Act 4; a call: its iteration 2, Route 2, its task 5


@pytest.mark.parametrize("values", [{"max_turns": 1000, "max_calls_per_turn": 20}, {"max_turns": 1000}])
def test_limits_are_refused_when_an_execution_could_not_hold_so_many_events(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="events of history"):
        Limits(**values)


def test_usual_limits_fit_an_execution_twice_when_every_turn_is_full() -> None:
    limits = Limits()
    assert 2 * limits.max_turns * (PER_TURN + PER_CALL * limits.max_calls_per_turn) < HISTORY_EVENTS


@pytest.mark.parametrize("values", [{"max_turns": 1000, "max_calls_per_turn": 1}, {"max_calls_per_turn": 20}])
def test_limits_are_taken_when_an_execution_holds_their_events(values: dict[str, Any]) -> None:
    assert Limits(**values).max_concurrency == 10


@pytest.mark.parametrize("row", [a_tool(), Limits(), AgentSpec.model_validate(AGENT)])
def test_row_stays_as_it_is_when_somebody_changes_it(row: ToolSpec | Limits | AgentSpec) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        row.name = "other"  # type: ignore[misc, union-attr]  # what is tested
