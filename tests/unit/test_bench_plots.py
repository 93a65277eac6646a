"""Which pictures are drawn, and what they say of the figures that they show."""

from pathlib import Path
from typing import Any

import pytest

from bench import plots as subject


class Figure:
    """Stands for matplotlib's: it saves what a picture would say of itself."""

    def savefig(self, file: Path, *, transparent: bool, metadata: dict[str, Any]) -> None:
        file.write_text(f"<dc:description>{metadata['Description']}</dc:description>")


@pytest.fixture(autouse=True)
def drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "DRAWINGS", {"cold": lambda _: Figure(), "cost": lambda _: Figure()})


def test_picture_names_the_figures_that_it_shows(tmp_path: Path) -> None:
    subject.draw({"cold": {"runs": 9}, "cost": {"rows": []}}, tmp_path)
    assert subject.shown(tmp_path / "bench-cold.svg") == subject.digest({"runs": 9})
    assert subject.shown(tmp_path / "bench-cost.svg") == subject.digest({"rows": []})


def test_section_that_is_missing_has_no_picture(tmp_path: Path) -> None:
    subject.draw({"cold": {"runs": 9}, "cost": {"rows": []}}, tmp_path)
    subject.draw({"cost": {"rows": []}}, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["bench-cost.svg"]


def test_digest_is_another_when_a_figure_is() -> None:
    assert subject.digest({"rows": [{"ms": 1.0}]}) != subject.digest({"rows": [{"ms": 1.1}]})


def test_digest_is_the_same_in_whatever_order_figures_stand() -> None:
    assert subject.digest({"a": 1, "b": 2}) == subject.digest({"b": 2, "a": 1})


def test_picture_that_says_nothing_shows_no_figures(tmp_path: Path) -> None:
    (tmp_path / "old.svg").write_text("<svg/>")
    assert subject.shown(tmp_path / "old.svg") == ""
