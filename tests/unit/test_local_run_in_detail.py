"""A run on the screen in detail, and the list of runs: fixed widths, so that every line can be read here."""

import io
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from local.api_client import RunEvent
from local.run_in_detail import Scale, duration, print_run, rows_of
from local.run_list import follow, table_of
from local.timeline import Timeline, read_timeline
from tests.recorded_run import A_QUESTION, TWO_CALLS, a_view, at, recorded


def a_console(width: int = 100) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None)


def written(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def shown(
    events: list[RunEvent], width: int = 100, below: Mapping[str, list[RunEvent]] | None = None, **run: Any
) -> list[str]:
    """The lines that are shown of a run, those without text left out."""
    timeline, console = read_timeline(events, at(4000)), a_console(width)

    def read(run_id: str) -> Timeline | None:
        return read_timeline((below or {})[run_id], at(4000)) if run_id in (below or {}) else None

    print_run(console, a_view(**run), timeline, list(rows_of(timeline, read)))
    return [line for line in written(console) if line]


def test_calls_that_ran_at_once_stand_below_each_other_in_the_same_columns() -> None:
    assert shown(TWO_CALLS) == [
        "run_abc_1  completed (answered) · assistant · session s · 2030-01-01 12:00:00 UTC",
        "+0.00 s ✓ turn 1   ────━━━━━                         1.00 s 1,200 + 40 tokens · $0.0012 · first to…",
        '+1.00 s   ✓ search         █████████                 1.00 s {"q": "a"}',
        "+1.00 s   ✗ search         █████████████████         2.00 s broke",
        "+3.00 s ✓ turn 2                           ────━━━━━ 1.00 s 1,200 + 40 tokens · $0.0012 · first to…",
        "4.00 s in all · 2 turns · 2 calls · 2,400 + 80 tokens · 1,000 cached · $0.0024",
        "2.00 s for models · 2.00 s in tools",
    ]


def test_notes_are_left_out_on_a_screen_without_room_for_them() -> None:
    lines = shown(TWO_CALLS, width=50)
    assert not [line for line in lines if "tokens · $0.0012 ·" in line and "+" in line[:1]]
    assert max(map(len, lines[1:5])) <= 50


def test_hour_of_waiting_is_drawn_shorter_than_the_work_around_it() -> None:
    lines = shown(A_QUESTION, width=120)
    bars = [sum(line.count(cell) for cell in "─━┄") for line in lines[1:4]]
    assert bars[1] < bars[0]
    assert "1 h 00 min" in lines[2]
    assert lines[-1] == "2.00 s for models · 1 h 00 min for people"


def test_run_of_a_called_agent_is_shown_below_its_call() -> None:
    events = recorded(
        (0, "turn.started", {"turn": 1}),
        (1, "message.completed", {"turn": 1, "calls": []}),
        (1, "tool.started", {"id": "c1", "name": "ask_poet", "arguments": "{}", "run_id": "run_0a_1"}),
        (4, "tool.completed", {"id": "c1", "name": "ask_poet", "text": "ok", "is_error": False}),
        (5, "run.completed", {}),
    )
    inner = recorded((2, "turn.started", {"turn": 1}), (3, "message.completed", {"turn": 1}), (4, "run.completed", {}))
    lines = shown(events, below={"run_0a_1": inner})[1:4]
    assert [line[8:20] for line in lines] == ["✓ turn 1    ", "  ✓ ask_poet", "    ✓ turn 1"]


def test_failure_and_open_questions_are_said_below() -> None:
    failed = shown(TWO_CALLS, status="failed", failure={"code": "model_busy", "message": "It is busy."})
    waits = shown(A_QUESTION[:5], status="waiting", interactions=["i1"], ended_at=None, stop_reason=None)
    assert failed[-1] == "✗ It is busy. (model_busy)"
    assert waits[-1] == "It waits for 1 answer: `make inbox`."


def test_record_is_shown_when_the_events_have_expired() -> None:
    console = a_console()
    print_run(console, a_view(), None, [])
    assert [line for line in written(console) if line][1:] == [
        "4.00 s in all · 2 turns · 2,400 + 80 tokens · 1,000 cached · $0.0024"
    ]


def test_unknown_cost_is_said_and_is_not_zero() -> None:
    assert "cost not known" in shown(TWO_CALLS, cost_usd=None)[5]


def test_what_a_model_or_a_tool_wrote_cannot_drive_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;x\x07"
    events = recorded(
        (0, "turn.started", {"turn": 1}),
        (1, "tool.completed", {"id": "c", "name": f"n{evil}", "text": f"[red]t{evil}", "is_error": True}),
        (2, "run.failed", {}),
    )
    lines = shown(events, session_id=f"s{evil}", failure={"code": "x", "message": f"m{evil}"})
    assert not [line for line in lines if "\x1b" in line or "\x07" in line]
    assert any("[red]t" in line for line in lines)  # and is no markup


@pytest.mark.parametrize("seconds", [0, 0.5, 1, 2, 3600, 3602])
def test_place_of_a_moment_is_between_begin_and_end_and_in_order(seconds: float) -> None:
    timeline = read_timeline(A_QUESTION, at(4000))
    scale = Scale(list(rows_of(timeline, lambda run_id: None)), timeline.begin, timeline.end)
    assert 0 <= scale.place(at(seconds)) <= scale.place(at(seconds + 0.1)) <= 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.00 s"), (0.004, "0.00 s"), (9.99, "9.99 s"), (12.34, "12.3 s"), (75, "1 min 15 s"), (3900, "1 h 05 min")],
)
def test_duration_is_told_in_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


# ---- the list


def listed(*runs: dict[str, Any]) -> list[str]:
    console = a_console(150)
    console.print(table_of(runs, at(64)))
    return [" ".join(line.split()) for line in written(console) if line.strip()]


def test_run_is_listed_with_all_that_tells_how_it_stands() -> None:
    assert listed(a_view())[-1] == "completed assistant s 1 min ago 4.00 s 2 2,480 $0.0024 answered run_abc_1"


def test_run_that_goes_on_has_taken_until_now_and_costs_what_nobody_knows() -> None:
    line = listed(a_view(status="running", ended_at=None, stop_reason=None, cost_usd=None))[-1]
    assert line == "running assistant s 1 min ago 1 min 04 s 2 2,480 ? run_abc_1"


def test_ids_are_whole_on_a_narrow_screen_since_people_copy_them() -> None:
    console = a_console(60)
    console.print(table_of([a_view(run_id="run_" + "a" * 32 + "_1")], at(64)))
    text = "".join(line[-20:].strip() for line in written(console))
    assert "a" * 10 in text
    assert "…" not in "".join(line.split()[-1] for line in written(console) if line.strip())


def test_list_is_brought_up_to_date_until_it_is_broken_off() -> None:
    class Enough(Exception):
        pass

    def sleep(seconds: float) -> None:
        reads.append(seconds)
        if len(reads) == 3:
            raise Enough

    reads: list[float] = []
    with pytest.raises(Enough):
        follow(lambda: [a_view()], a_console(), sleep)
    assert len(reads) == 3
