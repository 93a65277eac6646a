"""What docs/tools.md says of tools and limits is what the code does."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import yaml

from stepagent.agents import MAX_DEPTH, Limits
from stepagent.catalog import load_catalog
from stepagent.runs import StopReason
from stepagent.tool_specs import ToolKind, ToolSpec
from tests.functions import ROOT

PAGE = (ROOT / "docs" / "tools.md").read_text("utf-8")
NOTHING: tuple[Any, ...] = (None, (), {})


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> Iterator[list[str]]:
    """The cells of a section's table, without its head."""
    table = [line for line in section(title).splitlines() if line.startswith("|")]
    return ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:])


def number(text: str) -> int:
    return int(text.replace(",", ""))


def default_of(model: type[ToolSpec] | type[Limits], name: str) -> Any:
    return model.model_fields[name].get_default(call_default_factory=True)


def test_page_has_a_row_for_each_kind_of_tool() -> None:
    assert [cells[0].strip("`") for cells in rows("Kinds")] == list(get_args(ToolKind))


def test_example_of_the_page_is_a_row_of_the_catalog() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", section("Kinds"), re.DOTALL)
    assert ToolSpec.model_validate(yaml.safe_load(example)).http


def test_page_tells_how_deep_agents_call_one_another() -> None:
    assert f"at most {MAX_DEPTH} levels deep" in section("Kinds")


@pytest.mark.parametrize(("cell", "default"), [cells[:2] for cells in rows("Terms")])
def test_term_has_the_default_that_the_page_says(cell: str, default: str) -> None:
    value, said = default_of(ToolSpec, cell.strip("`")), default.split(";", maxsplit=1)[0].strip("`")
    if said == "none":
        assert value in NOTHING
    elif isinstance(value, int) and not isinstance(value, bool):
        assert value == number(said)
    else:
        assert str(value).lower() == said


def test_kinds_wait_as_long_as_the_page_says() -> None:
    (said,) = [cells[1] for cells in rows("Terms") if cells[0] == "`timeout_s`"]
    longer = re.findall(r"(\w+) ([\d,]+)", said.split(";")[1])
    targets = {"agent": "helper", "workflow": "arn:aws:states:eu-west-1:123456789012:stateMachine:x"}
    waits = {
        kind: ToolSpec(name="x", description="", kind=kind, target=targets.get(kind, "")).timeout_s
        for kind, _ in longer
    }
    assert waits == {kind: number(seconds) for kind, seconds in longer}


LIMITS = {
    name: default
    for cells in rows("What bounds a run")
    for name, default in zip(re.findall(r"`(max_\w+)`", cells[0]), cells[1].split("; "), strict=True)
}


@pytest.mark.parametrize(("name", "default"), LIMITS.items())
def test_limit_has_the_default_that_the_page_says(name: str, default: str) -> None:
    assert default_of(Limits, name) == (None if default == "none" else number(default))


def test_page_has_a_stop_reason_for_each_limit_that_ends_a_run() -> None:
    said = {re.findall(r"`(\w+)`", cells[2])[0] for cells in rows("What bounds a run")}
    assert said <= set(StopReason)
    of_limits = {reason for reason in StopReason if reason.startswith("max_") or reason is StopReason.LOOP}
    assert said == of_limits - {StopReason.MAX_REVISIONS}  # which bounds a plan, and stands on its page


def test_page_names_each_tool_that_comes_with_the_catalog() -> None:
    assert set(load_catalog(ROOT / "catalog").tools) <= set(re.findall(r"`(\w+)`", section("Built in")))
