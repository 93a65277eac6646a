"""What 1,000 runs cost on AWS, beside the same runs on a plain loop in one Lambda: counted usage times list prices.

A function is billed for what the model or the tool takes, and for as much more as `overhead` measured for a whole turn
on this machine, emulator and state machine included: more than any one function takes. Not in it, on either side: the
model's tokens, logs and traces, storage, data sent out, and what is free. Beside the runs, what it costs to start them,
to answer batches and to send results, and what a stack costs a month whatever runs.
"""

import math
from typing import Any, NamedTuple

from bench.prices import Amounts, Assumptions, PriceList, bill, billed, load_prices
from bench.progress import Steps
from bench.standing import month_amounts
from bench.starts import SQS_REQUESTS, batch_amounts, reply_amounts, start_amounts
from bench.usage import Usage, count

_AUTHORIZER_S = 0.02
_KB = 1024


class Overheads(NamedTuple):
    """Seconds of overhead of a turn with one call: here, and in the plain loop."""

    turn_s: float
    loop_turn_s: float


def amounts(usage: Usage, overheads: Overheads, given: Assumptions) -> Amounts:
    """What a run of this product is billed for, by the names of the prices."""
    shape, thinks, calls = usage.shape, usage.shape.turns + 1, usage.shape.turns * usage.shape.calls
    by_http = (shape.entry == "chat") + shape.asks  # a person's answer comes as a request, too
    think_s = usage.model_s + thinks * overheads.turn_s
    tool_s = calls * overheads.turn_s + (calls - shape.asks) * given.tool_s
    follow_s = think_s + shape.turns * (given.tool_s + overheads.turn_s) if shape.entry == "chat" else 0.0
    short_s = (shape.asks + (shape.entry == "job")) * overheads.turn_s + by_http * _AUTHORIZER_S
    return {
        "transition": usage.transitions,
        "lambda_request": thinks + calls + (shape.entry == "job") + 2 * by_http,
        "lambda_gb_s": given.think_gb * think_s + given.function_gb * (tool_s + follow_s + short_s),
        "read_unit": usage.read_units,
        "write_unit": usage.write_units,
        "s3_read": usage.s3_reads,
        "s3_write": usage.s3_writes,
        "api_request": by_http,
        "sqs_request": SQS_REQUESTS * (shape.entry == "job"),
        "event": usage.events,
    }


def loop_amounts(usage: Usage, overheads: Overheads, given: Assumptions) -> Amounts | None:
    """What the same run is billed for in one Lambda that does it all, and keeps the conversation in one item.

    It waits for its tools, which run at the same time in each turn. None where it cannot do it: for a person it would
    have to wait longer than a Lambda may.
    """
    shape = usage.shape
    busy_s = usage.model_s + (shape.turns + 1) * overheads.loop_turn_s + shape.turns * given.tool_s
    if shape.asks or busy_s > given.loop_longest_s:
        return None
    by_http = int(shape.entry == "chat")
    return {
        "lambda_request": 1 + by_http,
        "lambda_gb_s": given.loop_gb * busy_s + given.function_gb * by_http * _AUTHORIZER_S,
        "read_unit": 1,
        "write_unit": math.ceil(usage.conversation_bytes / _KB),
        "api_request": by_http,
        "sqs_request": SQS_REQUESTS * (1 - by_http),
    }


def measure(quick: bool, steps: Steps, overheads: Overheads) -> dict[str, Any]:
    listed = load_prices()
    given, prices = listed.assumptions, listed.prices
    runs, batch = count(quick, steps)
    beside = {
        **start_amounts(overheads.turn_s, given),
        **batch_amounts(batch, overheads.turn_s, given),
        **reply_amounts(given),
    }
    return {
        "overheads": overheads._asdict(),
        **listed.model_dump(mode="json"),
        "rows": [_row(usage, overheads, listed) for usage in runs],
        "starts": billed(beside, prices, 1000),
        "batch_inputs": batch.inputs,
        "month": billed(month_amounts(given), prices, 1),
    }


def _row(usage: Usage, overheads: Overheads, listed: PriceList) -> dict[str, Any]:
    ours = amounts(usage, overheads, listed.assumptions)
    loop = loop_amounts(usage, overheads, listed.assumptions)
    return {
        "shape": usage.shape.name,
        "usage": {name: value for name, value in usage._asdict().items() if name != "shape"},
        "amounts": {name: round(amount, 3) for name, amount in ours.items()},
        "usd": bill(ours, listed.prices),
        "loop_amounts": loop and {name: round(amount, 3) for name, amount in loop.items()},
        "loop_usd": loop and bill(loop, listed.prices),
    }


def overheads_of(overhead: dict[str, Any]) -> Overheads:
    """What `overhead` measured, over ten turns of one call; the plain loop is as quick as the quickest peer."""
    found = {
        row["system"]: row["median_ms"] / 1000 for row in overhead["rows"] if (row["calls"], row["turns"]) == (1, 10)
    }
    return Overheads(found.pop("stepagent"), min(found.values()))


def lines(result: dict[str, Any]) -> list[str]:
    return [
        *(
            f"cost of 1,000 runs: ${sum(row['usd'].values()):.2f}, on a plain loop "
            + (f"${sum(row['loop_usd'].values()):.2f}" if row["loop_usd"] else "not possible")
            + f"  ({row['shape']}; {row['usage']['model_s']:.1f} s of the model)"
            for row in result["rows"]
        ),
        *(f"cost of 1,000 times {row['name']}: ${sum(row['usd'].values()):.4f}" for row in result["starts"]),
        *(f"cost of a month of {row['name']}: ${sum(row['usd'].values()):.2f}" for row in result["month"]),
    ]
