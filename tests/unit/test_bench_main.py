"""What `make bench` leaves behind, whatever of it was measured."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench import __main__ as subject
from bench import report

MACHINE = {"cores": 2, "processor": "p", "system": "s", "python": "3", "emulator": "e", "peers": {}}


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The figures of which pictures were drawn, each time. Nothing is measured: each part says when it was."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(subject, "_measure", lambda *_: {"at": "now"})
    monkeypatch.setattr(subject, "_lines", lambda *_: [])
    monkeypatch.setattr(subject, "_machine", lambda: MACHINE)
    monkeypatch.setattr(subject, "_draw", lambda figures, _: found.append(json.loads(figures.read_text())))
    monkeypatch.setattr(report, "SECTIONS", {name: lambda part, name=name: f"{name} {part['at']}" for name in NAMES})
    return found


NAMES = subject.NAMES


def bench(folder: Path, names: Sequence[str], before: Sequence[str] = ()) -> str:
    """What is printed while these are measured into a folder that has the figures of others."""
    (folder / "bench.json").write_text(json.dumps({name: {"at": "before"} for name in before}))
    printed = io.StringIO()
    subject.bench(names, folder, False, Console(file=printed))
    return printed.getvalue()


def kept(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "bench.json").read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_page_is_written_when_one_part_alone_was_ever_measured(tmp_path: Path, name: str) -> None:
    bench(tmp_path, [name])
    page = (tmp_path / "benchmarks.md").read_text()
    assert [each for each in NAMES if f"\n{each} now\n" in page] == [name]


def test_page_has_what_was_measured_before_when_a_part_is_measured_again(tmp_path: Path) -> None:
    bench(tmp_path, ["cold"], before=["growth", "cold"])
    assert (tmp_path / "benchmarks.md").read_text().endswith("\n\ngrowth before\n\ncold now\n")


def test_pictures_are_drawn_when_a_part_is_missing(tmp_path: Path, drawn: list[dict[str, Any]]) -> None:
    bench(tmp_path, ["cold"])
    assert drawn == [kept(tmp_path)]


def test_cost_is_left_out_when_what_it_stands_on_was_measured_alone(tmp_path: Path) -> None:
    printed = bench(tmp_path, ["overhead"], before=["overhead", "cost"])
    assert "cost" not in kept(tmp_path)
    assert "ONLY=cost" in printed


def test_cost_is_measured_anew_when_it_is_named_with_what_it_stands_on(tmp_path: Path) -> None:
    printed = bench(tmp_path, ["cost", "overhead"], before=["overhead", "cost"])
    assert kept(tmp_path)["cost"] == {"at": "now"}
    assert "ONLY=cost" not in printed


def test_cost_stays_when_something_else_was_measured(tmp_path: Path) -> None:
    bench(tmp_path, ["cold"], before=["overhead", "cost"])
    assert kept(tmp_path)["cost"] == {"at": "before"}


def test_figures_that_were_not_written_change_nothing_when_a_measurement_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> dict[str, Any]:
        raise RuntimeError("broken")

    monkeypatch.setattr(subject, "_measure", fail)
    with pytest.raises(RuntimeError, match="broken"):
        bench(tmp_path, ["overhead"], before=["overhead", "cost"])
    assert kept(tmp_path)["cost"] == {"at": "before"}


def test_every_part_has_a_section_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert tuple(report.SECTIONS) == NAMES
