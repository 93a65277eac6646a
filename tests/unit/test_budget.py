"""What stops a run before its model does: bounds that are reached, and calls that go round in circles."""

import time
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from stepagent.agents import Limits
from stepagent.budget import elapsed_s, reached, time_left_s, with_notices, within_what_is_left
from stepagent.history import to_messages
from stepagent.messages import AssistantMessage, Message, ToolCall, UserMessage
from stepagent.runs import Call, Run, StopReason
from stepagent.usage import Usage
from tests.builders import NOON, a_call, a_done_call, a_run

Entry = Message | Call


def bounded(usage: Usage | None = None, **limits: Any) -> Run:
    return a_run(limits=Limits(**limits), usage=usage or Usage())


def reason(run: Run, turn: int = 2, entries: list[Entry] | None = None, after_s: float = 0) -> StopReason | None:
    bound = reached(run, turn, entries or [], NOON + timedelta(seconds=after_s))
    return bound.reason if bound else None


def repeated(turns: int, text: str = "same") -> list[Entry]:
    """The same call with the same result, once in each of these turns."""
    return [a_done_call(text, turn=turn) for turn in range(1, turns + 1)]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (bounded(max_total_tokens=100, usage=Usage(input_tokens=60, output_tokens=40)), StopReason.MAX_TOKENS),
        (bounded(max_total_tokens=101, usage=Usage(input_tokens=60, output_tokens=40)), None),
        (bounded(max_cost_usd="0.5", usage=Usage(cost_usd=Decimal("0.5"))), StopReason.MAX_COST),
        (bounded(max_cost_usd="0.5", usage=Usage(cost_usd=Decimal("0.4999999"))), None),
        (bounded(usage=Usage(input_tokens=10**9, cost_usd=None)), None),
    ],
)
def test_run_stops_when_its_tokens_or_its_money_are_spent(run: Run, expected: StopReason | None) -> None:
    assert reason(run) == expected


def test_run_stops_when_its_tokens_are_bounded_and_its_provider_tells_none() -> None:
    assert reason(bounded(max_total_tokens=10, usage=Usage(complete=False))) == StopReason.MAX_TOKENS
    assert reason(bounded(max_total_tokens=10, usage=Usage(input_tokens=1, complete=False))) is None


def test_run_stops_when_its_cost_is_bounded_and_not_known() -> None:
    assert reason(bounded(max_cost_usd=1, usage=Usage(cost_usd=None))) == StopReason.MAX_COST


@pytest.mark.parametrize(("turn", "expected"), [(3, None), (4, StopReason.MAX_TURNS)])
def test_run_stops_when_its_turns_are_used_up(turn: int, expected: StopReason | None) -> None:
    assert reason(bounded(max_turns=3), turn) == expected


@pytest.mark.parametrize(("made", "expected"), [(2, None), (3, StopReason.MAX_CALLS)])
def test_run_stops_when_its_calls_are_used_up(made: int, expected: StopReason | None) -> None:
    entries: list[Entry] = [a_done_call(str(position), position) for position in range(made)]
    assert reason(bounded(max_calls=3), entries=entries) == expected


def test_calls_of_earlier_runs_of_the_session_do_not_count() -> None:
    earlier: list[Entry] = [a_done_call("x", position) for position in range(3)]
    assert reason(a_run(limits=Limits(max_calls=3), run_id="run_abc_2"), entries=earlier) is None


@pytest.mark.parametrize(("after_s", "expected"), [(59, None), (60, StopReason.MAX_WALL_TIME)])
def test_run_stops_when_its_time_is_over(after_s: float, expected: StopReason | None) -> None:
    assert reason(bounded(max_wall_s=60), after_s=after_s) == expected


def waiting(position: int, turn: int, waited_s: int) -> Call:
    call = a_done_call("yes", position, turn)
    assert call.result
    return call.model_copy(update={"result": call.result.model_copy(update={"waited_s": waited_s})})


def test_time_for_which_people_let_a_run_wait_does_not_count() -> None:
    calls = [waiting(0, 1, 1000), waiting(1, 1, 900), waiting(0, 2, 500)]
    assert elapsed_s(a_run(), calls, NOON + timedelta(seconds=1510)) == 10


def test_time_left_has_no_end_when_no_time_is_set() -> None:
    assert time_left_s(a_run(), [], NOON + timedelta(days=300)) == float("inf")


@pytest.mark.parametrize(("turns", "expected"), [(4, None), (5, StopReason.LOOP)])
def test_run_stops_when_one_call_with_one_result_is_made_over_and_over(turns: int, expected: Any) -> None:
    assert reason(a_run(), turns + 1, repeated(turns)) == expected


def test_run_goes_on_when_the_results_of_a_call_differ() -> None:
    entries: list[Entry] = [a_done_call(f"{turn} % done", turn=turn) for turn in range(1, 9)]
    assert reason(a_run(), 9, entries) is None


def test_run_goes_on_when_a_circle_lies_behind_it() -> None:
    assert reason(a_run(), 7, [*repeated(5), a_done_call("news", turn=6)]) is None


def test_run_stops_when_two_calls_take_turns_in_a_circle() -> None:
    entries: list[Entry] = [a_done_call("a" if turn % 2 else "b", turn=turn) for turn in range(1, 10)]
    assert reason(a_run(), 10, entries) == StopReason.LOOP


def test_preview_of_a_long_result_is_the_same_result_although_it_names_its_call() -> None:
    long = {"finished_at": NOON, "kept_bytes": 10**6}
    entries: list[Entry] = [
        a_call(turn=turn, status="done", result={"text": f"x … read_result(call_1_{turn}_0)", **long})
        for turn in range(1, 6)
    ]
    assert reason(a_run(), 6, entries) == StopReason.LOOP


def test_other_images_make_another_result() -> None:
    entries: list[Entry] = [
        a_call(turn=turn, status="done", result={"text": "[image]", "images": (f"{turn}.png",), "finished_at": NOON})
        for turn in range(1, 9)
    ]
    assert reason(a_run(), 9, entries) is None


def test_circles_are_looked_for_in_a_long_run_without_delay() -> None:
    run, entries = a_run(limits=Limits(max_turns=1000, max_calls_per_turn=1)), repeated(1000, "x" * 16_000)
    began = time.perf_counter()
    with_notices(run, [], entries)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, (40, Decimal("0.2"))),
        ({"max_total_tokens": 30, "max_cost_usd": "0.1"}, (30, Decimal("0.1"))),
        ({"max_total_tokens": 300, "max_cost_usd": 1}, (40, Decimal("0.2"))),
    ],
)
def test_agent_that_is_asked_may_spend_what_its_caller_has_left(own: dict[str, Any], expected: Any) -> None:
    spent = Usage(input_tokens=50, output_tokens=10, cost_usd=Decimal("0.3"))
    limits = within_what_is_left(Limits(**own), bounded(spent, max_total_tokens=100, max_cost_usd="0.5"))
    assert (limits.max_total_tokens, limits.max_cost_usd) == expected


def test_agent_that_is_asked_ends_at_once_when_its_caller_has_nothing_left() -> None:
    spent = Usage(input_tokens=500, cost_usd=Decimal(3))
    limits = within_what_is_left(Limits(), bounded(spent, max_total_tokens=100, max_cost_usd=1))
    assert (limits.max_total_tokens, 0 < (limits.max_cost_usd or 0) < Decimal("0.00001")) == (1, True)


def test_agent_that_is_asked_keeps_its_own_limits_when_its_caller_has_none() -> None:
    assert within_what_is_left(Limits(max_total_tokens=7), a_run()) == Limits(max_total_tokens=7)


def test_order_of_arguments_makes_no_other_call() -> None:
    entries: list[Entry] = [
        a_done_call("x", turn=turn, arguments={"q": "x", "count": 1} if turn % 2 else {"count": 1, "q": "x"})
        for turn in range(1, 6)
    ]
    assert reason(a_run(), 6, entries) == StopReason.LOOP


def test_same_calls_of_one_turn_are_no_circle() -> None:
    entries: list[Entry] = [a_done_call("x", position) for position in range(8)]
    assert reason(a_run(), 2, entries) is None


def test_result_says_that_it_came_again_and_again_before_the_run_ends() -> None:
    calls = [a_done_call("same", turn=turn) for turn in range(1, 5)]
    entries: list[Entry] = [UserMessage(text="Hi")]
    for call in calls:
        asked = ToolCall(call_id=call.call_id, name="search")
        entries += [AssistantMessage(calls=(asked,)), call]
    shown = [message.text for message in with_notices(a_run(), to_messages(entries), entries) if message.role == "tool"]
    assert shown[:2] == ["same", "same"]
    assert ["3 times" in shown[2], "4 times" in shown[3]] == [True, True]


def test_closing_words_name_the_bound_for_the_model_and_for_a_person() -> None:
    for bound in (StopReason.MAX_TOKENS, StopReason.LOOP):
        run = bounded(max_total_tokens=1, usage=Usage(input_tokens=1)) if bound is StopReason.MAX_TOKENS else a_run()
        found = reached(run, 6, repeated(5), NOON)
        assert found
        assert found.reason is bound
        assert found.to_model.endswith(".")
        assert found.to_person
