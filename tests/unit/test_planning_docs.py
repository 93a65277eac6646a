"""docs/planning.md says what the code does."""

import re
from typing import get_args

import pytest
from samtranslator.yaml_helper import yaml_parse

from stepagent.agents import PlanSpec, Strategy
from stepagent.catalog import load_catalog
from stepagent.planning.plan import Step, StepStatus
from stepagent.runs import StopReason
from stepagent.store.journal import EventType
from tests.definition import PLAN_PATH, definition, targets
from tests.functions import ROOT

PAGE = (ROOT / "docs" / "planning.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
FIELDS = {cells[0].strip("`"): cells[1].strip("`") for cells in ROWS if len(cells) == 3}


def test_page_names_each_field_of_a_plan() -> None:
    assert set(FIELDS) == set(PlanSpec.model_fields)


@pytest.mark.parametrize(("name", "default"), FIELDS.items())
def test_field_has_the_default_that_the_page_says(name: str, default: str) -> None:
    assert str(getattr(PlanSpec(), name)).lower() == default


def test_page_names_each_status_and_each_field_of_a_step() -> None:
    assert {cells[0].strip("`") for cells in ROWS if len(cells) == 2} == set(StepStatus)
    assert set(Step.model_fields) <= set(re.findall(r"`(\w+)`", PAGE))


def test_page_names_each_event_each_strategy_and_the_stop_reason() -> None:
    events = {name for name in get_args(EventType) if name.split(".")[0] in ("plan", "step", "strategy")}
    assert events == set(re.findall(r"`((?:plan|step|strategy)\.\w+)", PAGE))
    assert {*get_args(Strategy), StopReason.MAX_REVISIONS} <= set(re.findall(r"`(\w+)`", PAGE))


def test_picture_has_the_transitions_of_the_state_machine() -> None:
    drawn = set(re.findall(r"^ +(\w+) --> (\w+)", PAGE, re.MULTILINE))
    states = definition(PLAN_PATH)["States"]
    ways = {(name, target) for name, state in states.items() for target in targets(state)}
    assert drawn <= ways
    assert {name for way in drawn for name in way} == set(states) - {"Done", "Failed", "RecordNoAnswer"}


def test_sample_agent_works_by_a_plan() -> None:
    agent = load_catalog(ROOT / "catalog").agents["planner"]
    written = yaml_parse((ROOT / "catalog" / "agents" / "planner.yaml").read_text())
    assert (agent.strategy, set(written["plan"]) <= set(FIELDS)) == ("plan", True)
