"""What happened in a run and when, read from its events."""

from collections.abc import Sequence
from datetime import datetime

import pytest

from local.api_client import RunEvent
from local.timeline import Span, read_timeline, walk
from tests.recorded_run import A_QUESTION, TWO_CALLS, at, recorded, spent

_NOW = at(9)


def spans(events: Sequence[RunEvent], now: datetime = _NOW) -> list[tuple[int, Span]]:
    return list(walk(read_timeline(events, now).spans))


def told(events: Sequence[RunEvent]) -> list[tuple[int, str, str, float, object]]:
    """Depth, title, state, and the seconds from which to which each span went on."""
    return [
        (
            depth,
            span.title,
            span.state,
            (span.begin - at(0)).total_seconds(),
            span.end and (span.end - at(0)).total_seconds(),
        )
        for depth, span in spans(events)
    ]


def test_calls_stand_below_the_turn_that_asked_for_them_and_overlap_as_they_did() -> None:
    assert told(TWO_CALLS) == [
        (0, "turn 1", "ok", 0, 1),
        (1, "search", "ok", 1, 2),
        (1, "search", "error", 1, 3),
        (0, "turn 2", "ok", 3, 4),
    ]


def test_turn_says_what_it_cost_and_when_its_reply_began() -> None:
    [(_, turn), *_] = spans(TWO_CALLS)
    assert turn.notes == ["1,200 + 40 tokens", "$0.0012", "first token 0.5 s", "default tool_choice"]
    assert turn.first == at(0.5)


def test_cost_is_left_out_when_it_is_not_known() -> None:
    events = recorded((0, "turn.started", {"turn": 1}), (1, "usage", spent(1, cost_usd=None, ttft_ms=None, model=None)))
    [(_, turn)] = spans(events)
    assert turn.notes == ["1,200 + 40 tokens", "tool_choice"]


def test_call_that_failed_says_why_and_one_that_worked_what_it_was_given() -> None:
    calls = [span.notes for _, span in spans(TWO_CALLS) if span.kind == "call"]
    assert calls == [['{"q": "a"}'], ["broke"]]


def test_question_lasts_until_its_answer_and_stands_in_the_place_of_its_call() -> None:
    assert told(A_QUESTION)[1:2] == [(1, "ask_user: text", "ok", 1, 3601)]
    assert len(told(A_QUESTION)) == 3


def test_approved_call_is_shown_beside_the_question_whether_it_may_run() -> None:
    asked = {"interaction_id": "i1", "call_id": "c1", "tool": "pay", "type": "approval"}
    events = recorded(
        (0, "turn.started", {"turn": 1}),
        (1, "interaction.required", asked),
        (2, "interaction.resolved", {"interaction_id": "i1", "status": "answered"}),
        (3, "tool.started", {"id": "c1", "name": "pay", "arguments": "{}"}),
        (4, "tool.completed", {"id": "c1", "name": "pay", "text": "paid", "is_error": False}),
    )
    assert [(span.kind, span.is_call) for _, span in spans(events)] == [
        ("turn", False),
        ("question", False),
        ("call", True),
    ]


def test_call_that_was_never_run_takes_no_time() -> None:
    events = recorded(
        (0, "turn.started", {"turn": 1}),
        (1, "tool.completed", {"id": "c1", "name": "nonsense", "text": "There is no such tool.", "is_error": True}),
    )
    assert told(events)[1] == (1, "nonsense", "error", 1, 1)


def test_turn_that_had_to_wait_for_its_provider_is_shown_as_often_as_it_was_tried() -> None:
    events = recorded(
        (0, "turn.started", {"turn": 1, "attempt": 1}),
        (5, "turn.started", {"turn": 1, "attempt": 2}),
        (6, "message.completed", {"turn": 1, "calls": []}),
    )
    assert [(span.state, span.notes) for _, span in spans(events)] == [("error", ["no reply"]), ("ok", ["attempt 2"])]


def test_what_goes_on_has_no_end_yet_and_the_timeline_lasts_until_now() -> None:
    timeline = read_timeline(TWO_CALLS[:8], now=at(9))
    assert [span.state for _, span in walk(timeline.spans)] == ["ok", "ok", "open"]
    assert timeline.end == at(9)


def test_what_was_open_ends_with_the_run() -> None:
    events = [*TWO_CALLS[:8], *recorded((5, "run.cancelled", {"stop_reason": "cancelled", "failure": None}))]
    assert told(events)[2] == (1, "search", "error", 1, 5)


def test_steps_of_a_plan_stand_below_the_turn_that_began_them_with_their_runs() -> None:
    plan = {"revision": 1, "steps": [{"id": "1", "title": "Look"}]}
    step = {"id": "1", "title": "Look", "call_id": "c1"}
    events = recorded(
        (0, "strategy.chosen", {"strategy": "plan", "why": "It has parts."}),
        (0, "turn.started", {"turn": 1}),
        (1, "plan.created", {"plan": plan}),
        (1, "step.started", {**step, "attempt": 1, "run_id": "run_0a_1"}),
        (2, "step.completed", {**step, "status": "done", "text": "Seen."}),
        (3, "plan.updated", {"plan": plan, "why": "It changed."}),
    )
    assert [(depth, span.title, span.notes, span.run_id) for depth, span in spans(events)] == [
        (0, "works by plan", ["It has parts."], ""),
        (0, "turn 1", [], ""),
        (1, "1. Look", [], "run_0a_1"),
        (0, "plan made", ["1 step"], ""),
        (0, "plan changed", ["It changed."], ""),
    ]


@pytest.mark.parametrize("count", range(1, len(A_QUESTION) + 1))
def test_every_beginning_of_a_run_can_be_shown(count: int) -> None:
    assert read_timeline(A_QUESTION[:count], now=at(4000)).begin == at(0)


def test_event_that_is_not_known_changes_nothing() -> None:
    assert told([*TWO_CALLS[:-1], *recorded((4, "weather.changed", {})), TWO_CALLS[-1]]) == told(TWO_CALLS)
