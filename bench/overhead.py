"""What the runtime itself costs a turn, beside openai-agents, langgraph and pydantic-ai on the same script.

Each system holds the same conversations with the same model (`model`), in turns with the others, so that whatever else
this machine does meets all alike. Functions of the product run as warm processes on the emulator, with the corrections
that `local/corrections.py` names; peers are one warm process each.
"""

import statistics
from typing import Any

from bench.model import TimedModel
from bench.peers import peers
from bench.progress import Steps
from bench.spans import Asked, System, by_turn_ms, medians, overhead_ms, slope
from bench.stack import StepAgent, hold, measured_stack

CALLS = (0, 1, 3, 10)
TURNS = (1, 10, 30)
RUNS, QUICK_RUNS = 5, 2


def measure(quick: bool, steps: Steps) -> dict[str, Any]:
    """Milliseconds a turn of each system, for each number of calls and of turns."""
    runs = QUICK_RUNS if quick else RUNS
    shapes = [(calls, turns) for calls in CALLS for turns in (TURNS[:2] if quick else TURNS)]
    with TimedModel() as model, measured_stack(model.base_url) as loop, peers(model.base_url) as others:
        systems: list[System] = [StepAgent(loop), *others]
        steps.expect(len(systems) * (len(CALLS) + len(shapes) * runs))
        for system in systems:
            for calls in CALLS:
                steps.begin(f"{system.name} warms up")
                hold(system, model, 2, calls, f"warm {calls}")
        held: dict[tuple[str, int, int], list[list[Asked]]] = {}
        for run in range(runs):
            for calls, turns in shapes:
                for system in systems:
                    steps.begin(f"run {run + 1} of {runs}: {system.name}, {turns} turns of {calls} calls")
                    conversation = hold(system, model, turns, calls, f"run {run} {turns} {calls}")
                    held.setdefault((system.name, calls, turns), []).append(conversation)
    rows = [
        {"system": name, "calls": calls, "turns": turns, **_summary(conversations)}
        for (name, calls, turns), conversations in held.items()
    ]
    return {"runs": runs, "kept": {system.name: system.kept for system in systems}, "rows": rows}


def _summary(conversations: list[list[Asked]]) -> dict[str, Any]:
    overheads = [overhead_ms(conversation) for conversation in conversations]
    by_turn = medians([by_turn_ms(conversation) for conversation in conversations])
    return {
        "median_ms": round(statistics.median(overheads), 1),
        "min_ms": round(min(overheads), 1),
        "max_ms": round(max(overheads), 1),
        "slope_ms": round(slope(by_turn), 2),
        "by_turn_ms": [round(each, 1) for each in by_turn],
    }


def lines(result: dict[str, Any]) -> list[str]:
    """What a reader looks for first."""
    found = {(row["calls"], row["turns"]): row for row in result["rows"] if row["system"] == StepAgent.name}
    longest = max(turns for _, turns in found)
    return [
        f"overhead per turn k={calls}: {row['median_ms']:.0f} ms  (min {row['min_ms']:.0f}, max {row['max_ms']:.0f};"
        f" {row['turns']} turns, {result['runs']} runs; {found[calls, longest]['slope_ms']:+.2f} ms"
        f" from one turn to the next over {longest})"
        for calls in CALLS
        if (row := found[calls, TURNS[1]])
    ]
