"""State entries and bytes of each turn, from an execution's history."""

import json
from typing import Any

from bench.growth import by_turn


def entered(name: str, given: str) -> dict[str, Any]:
    return {"type": "StateEntered", "stateEnteredEventDetails": {"name": name, "input": given}}


def exited(name: str, output: str) -> dict[str, Any]:
    return {"type": "StateExited", "stateExitedEventDetails": {"name": name, "output": output}}


def test_turn_begins_with_think() -> None:
    history = [entered("Think", "{}"), exited("Think", "{}"), entered("Think", "{}"), entered("Done", "{}")]
    assert [entries for entries, _, _ in by_turn(history)] == [1, 2]


def test_bytes_are_those_into_and_out_of_states() -> None:
    history = [entered("Think", "x" * 10), exited("Think", "é" * 10), {"type": "TaskScheduled"}]
    assert by_turn(history) == [(1, 30, 20)]


def test_call_counts_as_the_two_states_that_the_emulator_does_not_list() -> None:
    state = json.dumps({"run_id": "r", "calls": [{"call_id": "c"}]}, separators=(",", ":"))
    item = len('{"call_id":"c","run_id":"r"}')
    history = [entered("Think", ""), entered("Act", state)]
    assert by_turn(history) == [(2 + 2, len(state) + 3 * item + 2, len(state))]
