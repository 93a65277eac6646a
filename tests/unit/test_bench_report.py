"""The page of the benchmarks says what their figures say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import NAMES
from bench.cost import overheads_of
from bench.overhead import CALLS, RUNS, TURNS
from bench.plots import digest, shown
from bench.report import page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "bench.json").read_text())
    return found


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.M)


def test_page_is_made_of_the_figures(results: dict[str, Any]) -> None:
    assert (DOCS / "benchmarks.md").read_text() == page(results), "make bench writes docs/benchmarks.md"


def test_page_has_the_sections_that_were_measured(results: dict[str, Any]) -> None:
    alone = [headings(page({"machine": results["machine"], name: results[name]})) for name in NAMES]
    assert all(alone)
    assert headings(page(results)) == [heading for found in alone for heading in found]


def test_pictures_show_the_figures_of_the_page(results: dict[str, Any]) -> None:
    pictures = re.findall(r"!\[[^]]+\]\(bench-(\w+)\.svg\)", page(results))
    assert {name: shown(DOCS / f"bench-{name}.svg") for name in pictures} == {
        name: digest(results[name]) for name in pictures
    }


def test_pictures_are_those_of_the_page(results: dict[str, Any]) -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page(results))
    assert pictures
    assert sorted(pictures) == sorted(file.name for file in DOCS.glob("bench-*.svg"))


def test_pictures_name_no_day(results: dict[str, Any]) -> None:
    assert not [svg.name for svg in DOCS.glob("bench-*.svg") if "<dc:date>" in svg.read_text()]


def test_costs_stand_on_the_overheads_of_the_page(results: dict[str, Any]) -> None:
    assert results["cost"]["overheads"] == overheads_of(results["overhead"])._asdict()


def test_readme_says_what_was_measured(results: dict[str, Any]) -> None:
    readme = (DOCS.parent / "README.md").read_text()
    rows = {(row["calls"], row["turns"]): row for row in results["overhead"]["rows"] if row["system"] == "stepagent"}
    medians = [f"{rows[calls, 10]['median_ms']:.0f} ms" for calls in CALLS]
    slopes = [f"{rows[calls, 30]['slope_ms']:+.2f} ms" for calls in CALLS]
    assert f"| overhead per turn, median | {' | '.join(medians)} |" in readme
    assert f"| more from one turn to the next, over 30 | {' | '.join(slopes)} |" in readme


def test_figures_are_those_of_whole_runs(results: dict[str, Any]) -> None:
    measured = {(row["calls"], row["turns"]) for row in results["overhead"]["rows"]}
    assert (results["overhead"]["runs"], measured) == (RUNS, {(calls, turns) for calls in CALLS for turns in TURNS})
