"""What a wrong row of the catalog is told: its field as the author wrote it, and the field that was meant."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from stepagent.agents import AgentSpec
from stepagent.api.catalog import put_row
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.catalog import load_catalog
from stepagent.errors import ConfigurationError, InvalidRequest
from stepagent.row_problems import Problem, in_words, row_problems
from stepagent.rows import RowKey
from stepagent.runs import Principal
from stepagent.tool_specs import ToolSpec

AGENT: dict[str, Any] = {"name": "a", "instructions": "Help."}
TOOL: dict[str, Any] = {"name": "t", "description": "Does.", "kind": "lambda", "target": "tool_t"}
HTTP: dict[str, Any] = {**TOOL, "kind": "http", "target": ""}
ASKING: dict[str, Any] = {**TOOL, "kind": "interactive", "target": ""}
URL = "https://example.com/v1"


def problem(kind: type[BaseModel], row: Any) -> Problem:
    with pytest.raises(ValidationError) as error:
        kind.model_validate(row)
    return row_problems(error.value, kind)[0]


def of_field(name: str, **more: Any) -> dict[str, Any]:
    """A tool that asks with a form of one field."""
    return {**ASKING, "interaction": {"type": "form", "description": "?", "fields": [{"key": "k", name: 1, **more}]}}


@pytest.mark.parametrize(
    ("kind", "row", "field", "meant"),
    [
        (AgentSpec, {"name": "a", "instruction": "Help."}, "instruction", "instructions"),
        (AgentSpec, {"name": "a", "Instructions": "Help."}, "Instructions", "instructions"),
        (AgentSpec, {**AGENT, "ANSWER-FORM": {}}, "ANSWER-FORM", "answer_form"),
        (AgentSpec, {**AGENT, "limits": {"maxTurns": 5}}, "limits.maxTurns", "max_turns"),
        (AgentSpec, {**AGENT, "plan": {"max_step": 5}}, "plan.max_step", "max_steps"),
        (AgentSpec, {**AGENT, "tools": ["x", {"tol": "y"}]}, "tools.1.tol", "tool"),
        (AgentSpec, {**AGENT, "answer_form": {"schema": {}}}, "answer_form.schema", "json_schema"),
        (ToolSpec, {**TOOL, "descripton": ""}, "descripton", "description"),
        (ToolSpec, {**TOOL, "approval": {"whn": {}}}, "approval.whn", "when"),
        (ToolSpec, {**HTTP, "http": {"url": URL, "metod": "GET"}}, "http.metod", "method"),
        (
            ToolSpec,
            {**HTTP, "http": {"url": URL, "arguments": {"name": {"place": "query", "nam": "n"}}}},
            "http.arguments.name.nam",
            "name",
        ),
        (
            ToolSpec,
            {**HTTP, "http": {"url": URL, "secrets": {"prefix": {"secret": "stepagent/tools/a", "prefx": ""}}}},
            "http.secrets.prefix.prefx",
            "prefix",
        ),
        (ToolSpec, {**HTTP, "kind": "mcp", "mcp": {"url": URL, "trust_hint": True}}, "mcp.trust_hint", "trust_hints"),
        (
            ToolSpec,
            {**ASKING, "interaction": {"type": "choice", "options": ["a"], "option_from": "b"}},
            "interaction.option_from",
            "options_from",
        ),
        (ToolSpec, of_field("patern", type="text"), "interaction.fields.0.patern", "pattern"),
        (ToolSpec, of_field("maxi", type="integer"), "interaction.fields.0.maxi", "max"),
    ],
)
def test_unknown_field_is_named_with_the_nearest_one_wherever_it_stands(
    kind: type[BaseModel], row: Any, field: str, meant: str
) -> None:
    assert problem(kind, row) == (field, f"there is no such field, perhaps you mean {meant}")


@pytest.mark.parametrize(
    ("row", "field", "fields"),
    [
        ({**AGENT, "tools": [{"tool": "x", "zzz": 1}]}, "tools.0.zzz", "tool, name, description, bound"),
        ({**AGENT, "answer_form": {"zzz": 1}}, "answer_form.zzz", "name, description, json_schema, strict"),
    ],
)
def test_fields_are_listed_when_an_unknown_one_is_like_none(row: Any, field: str, fields: str) -> None:
    assert problem(AgentSpec, row) == (field, f"there is no such field, there are {fields}")


def test_fields_of_the_member_that_is_meant_are_listed_alone() -> None:
    row = {**ASKING, "interaction": {"type": "text", "zzz": 1}}
    assert problem(ToolSpec, row) == ("interaction.zzz", "there is no such field, there are description, type")


@pytest.mark.parametrize(
    ("kind", "row", "told"),
    [
        (AgentSpec, [], ("", "Input should be a valid dictionary or instance of AgentSpec")),
        (AgentSpec, {"name": "a"}, ("instructions", "Field required")),
        (AgentSpec, {**AGENT, "limits": {"max_turns": "x"}}, ("limits.max_turns", "Input should be a valid integer")),
        (AgentSpec, {**AGENT, "tools": ["x", "x"]}, ("", "two tools have the name x")),
        (AgentSpec, dict([*AGENT.items(), (1, 2)]), ("1", "Keys should be strings")),
        (ToolSpec, {**TOOL, "approval": "sometimes"}, ("approval", "Input should be 'never' or 'always'")),
        (ToolSpec, {**HTTP, "http": {"url": URL, "headers": {"url": 1}}}, ("http.headers.url", "Input should be")),
    ],
)
def test_other_problems_are_told_at_the_place_that_the_author_wrote(
    kind: type[BaseModel], row: Any, told: tuple[str, str]
) -> None:
    field, message = problem(kind, row)
    assert (field, message[: len(told[1])]) == told


def test_name_is_cut_when_it_is_as_long_as_a_text() -> None:
    field, message = problem(AgentSpec, {**AGENT, "x" * 100_000: 1})
    assert len(field) < 100
    assert "x" * 100 not in message


def test_few_are_told_when_a_row_has_thousands_of_unknown_fields() -> None:
    with pytest.raises(ValidationError) as error:
        AgentSpec.model_validate({**AGENT, **{f"field_{number}": 1 for number in range(5_000)}})
    assert len(row_problems(error.value, AgentSpec)) == 5


def test_words_name_the_unknown_field_first_since_it_is_the_cause() -> None:
    with pytest.raises(ValidationError) as error:
        AgentSpec.model_validate({"name": "a", "instruction": "Help."})
    unknown = "instruction: there is no such field, perhaps you mean instructions"
    assert in_words(error.value, AgentSpec) == f"{unknown}; instructions: Field required"


def test_file_and_the_field_that_was_meant_are_named_when_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.yaml").write_text(yaml.safe_dump({**AGENT, "limits": {"max_turn": 5}}))
    words = (
        r"catalog/agents/a\.yaml is not right: limits\.max_turn: there is no such field, perhaps you mean max_turns\."
    )
    with pytest.raises(ConfigurationError, match=words):
        load_catalog(tmp_path)


def test_field_that_was_meant_is_named_when_a_row_is_put() -> None:
    caller = Caller(Principal("ann"), frozenset({"catalog"}))
    with pytest.raises(InvalidRequest) as refused:
        put_row(RowKey("agent", "a"), b'{"instruction": "Help."}', Precondition(), caller)
    words = "instruction: there is no such field, perhaps you mean instructions."
    assert (refused.value.message, refused.value.param) == (words, "instruction")
