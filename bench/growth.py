"""What a turn moves as a run grows: state entries, bytes through the state machine, requests and bytes of DynamoDB.

One run of 30 turns for each number of calls; without calls, 30 questions in one session. A turn reaches from the end of
one reply of the model to the end of the next. Nobody follows the runs, so what is counted is the loop's own.
"""

import json
import time
from collections import Counter as Tally
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bench.counting import Counted, Counter, counted_stack
from bench.model import TimedModel
from bench.overhead import CALLS
from bench.progress import Steps
from bench.spans import Span, slope
from bench.stack import ME, hold, request, require_answer, wait_end
from stepagent.api.service import read_run, say
from stepagent.runs import RunId
from tests.local_loop import LocalLoop

TURNS, QUICK_TURNS = 30, 10
METRICS = ("entries", "state_bytes", "requests", "sent_bytes", "received_bytes", "read_units", "write_units")


class Quiet:
    """The product, asked without a look at its record, which would be counted."""

    name = "stepagent"
    kept = ""

    def __init__(self, loop: LocalLoop) -> None:
        self._loop = loop
        self.run_ids: list[RunId] = []

    def ask(self, session: str, question: str) -> Span:
        began = time.time()
        run_id = say(request(session, question), ME).run.run_id
        wait_end(self._loop, run_id)
        span = Span(began, time.time())
        self.run_ids.append(run_id)
        require_answer(read_run(run_id, ME))
        return span


def measure(quick: bool, steps: Steps) -> dict[str, Any]:
    """For each number of calls, each metric of each turn."""
    turns = QUICK_TURNS if quick else TURNS
    rows = []
    with TimedModel() as model, counted_stack(model.base_url) as (loop, counter):
        steps.expect(len(CALLS))
        for calls in CALLS:
            steps.begin(f"{turns} turns of {calls} calls")
            rows.append({"calls": calls, "turns": turns, **_run(loop, counter, model, turns, calls)})
    return {"turns": turns, "rows": rows}


def _run(loop: LocalLoop, counter: Counter, model: TimedModel, turns: int, calls: int) -> dict[str, Any]:
    system = Quiet(loop)
    held = hold(system, model, turns, calls, f"growth {calls}")
    if calls:
        ends = [reply.ended for reply in held[0].replies]
        windows = [Span(*pair) for pair in pairwise(ends)]
        states = by_turn(loop.history(system.run_ids[0]))[:turns]
    else:
        windows = [asked.whole for asked in held]
        states = [_total(by_turn(loop.history(run_id))) for run_id in system.run_ids]
    moved = [_sums(counter.within(window)) for window in windows]
    by_turn_of: dict[str, list[float]] = {metric: [] for metric in METRICS} | {
        "entries": [entries for entries, _, _ in states],
        "state_bytes": [passed for _, passed, _ in states],
        **{metric: [each[metric] for each in moved] for metric in METRICS[2:]},
    }
    operations = Tally(each.operation for window in windows for each in counter.within(window))
    return {
        "by_turn": by_turn_of,
        "slopes": {metric: round(slope(values), 3) for metric, values in by_turn_of.items()},
        "largest_state_bytes": max(largest for _, _, largest in states),
        "operations_per_turn": {name: round(count / turns, 2) for name, count in sorted(operations.items())},
    }


def _sums(counted: Sequence[Counted]) -> dict[str, float]:
    return {"requests": len(counted)} | {
        metric: round(sum(getattr(each, metric) for each in counted), 1) for metric in METRICS[3:]
    }


def by_turn(history: Sequence[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Of each turn of an execution: state entries, bytes into and out of states, and the largest of these.

    The emulator lists no events of states inside a Map, so each call of `Act` counts as it is defined: `Route` passes
    its item on, `RunTool` takes it and leaves `{}`.
    """
    turns: list[tuple[int, int, int]] = []
    for event in history:
        details = event.get("stateEnteredEventDetails") or event.get("stateExitedEventDetails") or {}
        if "name" not in details:
            continue
        entered = "stateEnteredEventDetails" in event
        if details["name"] == "Think" and entered:
            turns.append((0, 0, 0))
        sizes = [len(details.get("input" if entered else "output", "").encode())]
        items = _items(details["input"]) if details["name"] == "Act" and entered else []
        sizes += [size for item in items for size in (item, item, item, len("{}"))]
        entries, passed, largest = turns[-1]
        turns[-1] = (entries + entered + 2 * len(items), passed + sum(sizes), max(largest, *sizes))
    return turns


def _items(given: str) -> list[int]:
    """Bytes of each item that `Act` makes of its input."""
    state = json.loads(given)
    return [len(json.dumps({**call, "run_id": state["run_id"]}, separators=(",", ":"))) for call in state["calls"]]


def _total(turns: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    entries, passed, largest = zip(*turns, strict=True)
    return sum(entries), sum(passed), max(largest)


def lines(result: dict[str, Any]) -> list[str]:
    return [
        f"growth k={row['calls']}: from turn 1 to {row['turns']},"
        + ",".join(f" {row['by_turn'][name][0]:.0f} to {row['by_turn'][name][-1]:.0f} {name}" for name in METRICS)
        for row in result["rows"]
    ]
