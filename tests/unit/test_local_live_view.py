"""The live view: what stays on the screen of a run, with the time that each step took."""

import io
import re

import pytest
from rich.console import Console

from local.checklist import Checklist
from local.live_view import LiveView
from local.plan_news import StepNews
from local.view import Closing, PlainView, View
from stepagent.planning.plan import PlannedStep, StepStatus, make_plan
from tests.plans import DIAMOND, a_plan, a_step

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


# ---- plans

NASTY = "\x1b[2J\x1b]0;mine\x07Look\r\u202ekool [bold]x[/bold]\nforged"


def carried_out(view: View) -> None:
    """A plan in which one step fails once, one is blocked, and one is never reached."""
    view.begin()
    view.turn("turn 1")
    view.plan(a_plan("a", "b", "c"), None)
    view.step(StepNews("a", "Title a", StepStatus.IN_PROGRESS, 1))
    view.step(StepNews("b", "Title b", StepStatus.IN_PROGRESS, 1))
    view.step(StepNews("a", "Title a", StepStatus.DONE, text="Found."))
    view.step(StepNews("b", "Title b", StepStatus.PENDING, text="It broke."))
    view.step(StepNews("b", "Title b", StepStatus.IN_PROGRESS, 2))
    view.step(StepNews("b", "Title b", StepStatus.BLOCKED, text="It broke again."))
    view.turn("turn 2")
    view.text("All is done.")
    view.end(Closing(status="completed", run_id="run_1", turns=2, steps=2))


def test_plan_stays_above_the_answer_as_it_was_carried_out(screen: Console) -> None:
    carried_out(LiveView(screen))
    assert shown(screen) == [
        "turn 1 · T",
        "turn 2 · T",
        "  ✔ a. Title a · T: Found.",
        "  ✖ b. Title b · T: It broke again.",
        "  ⤼ c. Title c",
        "All is done.",
        "2 turns · 0 tool calls · 2 steps · T · run_1",
    ]


def test_plan_is_told_in_lines_where_there_is_no_terminal(screen: Console) -> None:
    carried_out(PlainView(screen))
    assert shown(screen)[1:-2] == [
        "plan:",
        "   a. Title a [pending]",
        "   b. Title b [pending]",
        "   c. Title c [pending]",
        "-> step a (Title a)",
        "-> step b (Title b)",
        "<- step a (Title a): Found.",
        "!! step b (Title b), once more: It broke.",
        "-> step b (Title b)",
        "!! step b (Title b) blocked: It broke again.",
        "turn 2",
    ]


def test_plan_is_shown_once_when_it_changes_and_why_stands_above_it(screen: Console) -> None:
    view = LiveView(screen)
    view.begin()
    view.plan(a_plan("a"), None)
    view.step(StepNews("a", "Title a", StepStatus.BLOCKED, text="No."))
    view.plan(a_plan("a", "f"), "a cannot be done")
    view.end(Closing(status="completed", run_id="run_1"))
    assert shown(screen)[:3] == ["  plan changed: a cannot be done", "  ⤼ a. Title a", "  ⤼ f. Title f"]


def test_plan_is_left_to_the_question_when_the_run_waits(screen: Console) -> None:
    view = LiveView(screen)
    view.begin()
    view.plan(a_plan("a"), None)
    view.end(Closing(status="waiting"))
    assert shown(screen) == []


def test_plan_goes_on_where_it_was_when_a_question_is_answered(screen: Console) -> None:
    view = LiveView(screen)
    view.begin()
    view.plan(a_plan("a"), None)
    view.step(StepNews("a", "Title a", StepStatus.IN_PROGRESS, 1))
    view.end(Closing(status="waiting"))
    view.begin()
    view.step(StepNews("a", "Title a", StepStatus.DONE, text="Found."))
    view.text("Done.")
    view.end(Closing(status="completed", run_id="run_1"))
    assert shown(screen)[:2] == ["  ✔ a. Title a · T: Found.", "Done."]


@pytest.mark.parametrize("kind", [LiveView, PlainView])
def test_words_of_a_model_in_a_plan_neither_drive_the_terminal_nor_make_lines(
    screen: Console, kind: type[LiveView | PlainView]
) -> None:
    view = kind(screen)
    view.begin()
    view.plan(make_plan([PlannedStep(id="a\x1b[1A", title=NASTY), PlannedStep(id="b", title="x" * 200)], 5), None)
    view.step(StepNews("a\x1b[1A", NASTY, StepStatus.IN_PROGRESS, 1))
    view.step(StepNews("a\x1b[1A", NASTY, StepStatus.DONE, text=NASTY + "\ud83d"))
    view.plan(a_plan("z"), NASTY)
    view.end(Closing(status="completed", run_id="run_1"))
    assert isinstance(screen.file, io.StringIO)
    told = screen.file.getvalue()
    assert not {each for each in told if not (each.isprintable() or each == "\n")}
    assert not [line for line in told.splitlines() if line.startswith("forged")]
    assert max(map(len, told.splitlines())) <= (100 if kind is LiveView else 300)


def test_plan_is_all_that_moves_while_its_steps_run_and_stands_above_the_spinner_when_the_model_thinks() -> None:
    screen = Console(file=io.StringIO(), width=30, color_system=None)
    view = LiveView(screen, Seconds())
    view.plan(make_plan([a_step("a"), a_step("b", "a").model_copy(update={"title": "x" * 99})], 5), None)
    view.step(StepNews("a", "Title a", StepStatus.IN_PROGRESS, 1))
    screen.print(view._render())
    view.turn("turn 2")
    screen.print(view._render())
    running = ["  ⠋ a. Title a · 0 s", f"  ☐ b. {'x' * 22}…"]
    assert shown(screen) == [*running, *running, "⠋ thinking … 0 s"]


class Seconds:
    """A clock that stands still between the test's own steps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def live_lines(checklist: Checklist) -> list[str]:
    return [line.plain for line in checklist.lines()]


def test_steps_that_run_at_the_same_time_are_shown_at_once_each_with_its_time() -> None:
    clock = Seconds()
    checklist = Checklist(clock)
    checklist.show(make_plan(DIAMOND, 9))
    checklist.hear(StepNews("a", "Title a", StepStatus.DONE))
    checklist.hear(StepNews("b", "Title b", StepStatus.IN_PROGRESS, 1))
    clock.now = 2.0
    checklist.hear(StepNews("c", "Title c", StepStatus.IN_PROGRESS, 2))
    clock.now = 5.0
    assert live_lines(checklist) == [
        "  ✔ a. Title a",
        "  ⠋ b. Title b · 5 s",
        "  ⠋ c. Title c · try 2 · 3 s",
        "  ☐ d. Title d (after b, c)",
        "  ☐ e. Title e (after d)",
    ]


def test_step_that_is_changed_begins_anew_in_the_list() -> None:
    clock = Seconds()
    checklist = Checklist(clock)
    checklist.show(a_plan("a"))
    checklist.hear(StepNews("a", "Title a", StepStatus.IN_PROGRESS, 1))
    checklist.hear(StepNews("a", "Title a", StepStatus.BLOCKED, text="No."))
    checklist.show(a_plan("a"))
    assert live_lines(checklist) == ["  ☐ a. Title a"]


def test_step_that_no_plan_names_is_no_line() -> None:
    checklist = Checklist(Seconds())
    checklist.hear(StepNews("a", "Title a", StepStatus.IN_PROGRESS, 1))
    assert (live_lines(checklist), checklist.has_begun) == ([], False)
