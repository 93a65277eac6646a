"""The live view: what stays on the screen of a run, with the time that each step took."""

import io
import re

import pytest
from rich.console import Console

from local.live_view import LiveView
from local.view import Closing, PlainView

TIME = re.compile(r"\d+\.\d s")


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), width=100, color_system=None)


def shown(screen: Console) -> list[str]:
    """The lines that stay, each time written as T."""
    assert isinstance(screen.file, io.StringIO)
    return [TIME.sub("T", line.rstrip()) for line in screen.file.getvalue().splitlines() if line.strip()]


def test_times_are_shown_of_each_turn_and_tool(screen: Console) -> None:
    view = LiveView(screen)
    view.begin()
    view.turn("turn 1")
    view.called("c1", "search", 'query="a"')
    view.called("c2", "search", 'query="b"')
    view.returned("c1", "search", "found", is_error=False)
    view.returned("c2", "search", "broke", is_error=True)
    view.returned("c3", "absent", "There is no such tool.", is_error=True)
    view.turn("turn 2")
    view.text("Done.")
    view.end(Closing(status="completed", run_id="run_1", turns=2, calls=3))
    assert shown(screen) == [
        "turn 1 · T",
        '  → search(query="a")',
        '  → search(query="b")',
        "  ✓ search · T: found",
        "  ✗ search · T: broke",
        "  ✗ absent: There is no such tool.",
        "turn 2 · T",
        "Done.",
        "2 turns · 3 tool calls · T · run_1",
    ]


def test_time_is_shown_of_a_turn_that_does_nothing_but_ask(screen: Console) -> None:
    view = LiveView(screen)
    view.begin()
    view.turn("turn 1")
    view.end(Closing(status="waiting"))
    assert shown(screen) == ["turn 1 · T"]


def test_note_stands_between_what_is_shown_when_a_run_is_cancelled(screen: Console) -> None:
    view = LiveView(screen)
    view.begin()
    view.text("Half a sen")
    view.note("Cancelling the run.")
    view.end(Closing(status="cancelled", failure="The run was cancelled."))
    assert shown(screen) == [
        "Cancelling the run.",
        "Half a sen",
        "✗ The run was cancelled.",
        "0 turns · 0 tool calls · T ·",
    ]


def test_lines_hold_no_gap_when_a_text_follows_a_tool(screen: Console) -> None:
    view = PlainView(screen)
    view.begin()
    view.returned("c1", "search", "found", is_error=False)
    view.text("\n\nDone.")
    view.end(Closing(status="waiting"))
    assert shown(screen) == ["<- search: found", "Done."]
    assert isinstance(screen.file, io.StringIO)
    assert "\n\n" not in screen.file.getvalue()
