"""What the page says of cost."""

from typing import Any

from bench.markdown import picture, prose, section, table

_PARTS = {
    "transition": "transitions",
    "lambda_request": "Lambda requests",
    "lambda_gb_s": "Lambda GB-s",
    "write_unit": "write units",
    "read_unit": "read units",
    "s3_write": "S3 writes",
    "s3_read": "S3 reads",
    "api_request": "API requests",
    "sqs_request": "SQS requests",
    "event": "events",
}
_OTHERS = {
    "fifo_request": "SQS requests, FIFO",
    "schedule": "schedules",
    "metric": "metrics a month",
    "alarm": "alarms a month",
    "dashboard": "dashboards a month",
    "log_gb": "GB of logs",
}
_NAMES = _PARTS | _OTHERS
_SHOWN = {
    "transitions": ("transition",),
    "Lambda": ("lambda_request", "lambda_gb_s"),
    "DynamoDB": ("read_unit", "write_unit"),
}


def cost(result: dict[str, Any]) -> str:
    """The sections of the page."""
    return "\n\n".join([_runs(result), _starts(result), _month(result)])


def _runs(result: dict[str, Any]) -> str:
    """Dollars, then what they are made of."""
    used = [("", row, row["amounts"]) for row in result["rows"]]
    used += [("*loop* ", row, row["loop_amounts"]) for row in result["rows"] if row["loop_amounts"]]
    assumed, overheads = result["assumptions"], result["overheads"]
    return section(
        "What a thousand runs cost",
        "overhead cost",
        result,
        picture("Cost of 1,000 runs", "cost"),
        table(
            ["1,000 runs", "StepAgent", *(f"of it {part}" for part in _SHOWN), "plain loop in one Lambda"],
            map(_dollars, result["rows"]),
        ),
        prose(f"""Counted while such a run was carried out locally, at the pace of a real model (half a second to the
            first token, then 50 a second, an answer of 200), times list prices. `think` ({assumed["think_gb"]} GB)
            is billed while the model speaks, a call ({assumed["function_gb"]} GB) for {1000 * assumed["tool_s"]:.0f}
            ms of a tool's work, and each for {1000 * overheads["turn_s"]:.0f} ms more, the overhead of a whole turn;
            `stream` while a client follows."""),
        prose(f"""The loop is one Lambda ({assumed["loop_gb"]} GB) that waits for model and tools, with
            {1000 * overheads["loop_turn_s"]:.0f} ms more a turn like the quickest peer, and keeps a conversation in
            one item at the end. It loses a run that dies, and can neither wait for a person nor run above 15
            minutes. Not in it, on either side: tokens, logs, traces, storage, transfer, and what is free."""),
        table(
            ["one run", "model", *_PARTS.values()],
            [
                [
                    name + row["shape"],
                    f"{row['usage']['model_s']:.1f} s",
                    *(f"{amounts.get(part, 0):,.4g}" for part in _PARTS),
                ]
                for name, row, amounts in used
            ],
        ),
    )


def _starts(result: dict[str, Any]) -> str:
    assumed, overheads = result["assumptions"], result["overheads"]
    return section(
        "What starts, batches and results cost",
        "overhead cost",
        result,
        "Beside the runs themselves:",
        table(
            ["1,000 times", "US dollars", "made of, each"],
            [[row["name"], f"${sum(row['usd'].values()):.4f}", _made_of(row)] for row in result["starts"]],
        ),
        prose(f"""Whatever starts a run comes by a queue, so each start has its three requests in it, and one message
            each for `ingest`; runs that are called jobs above have those of the queue in them already. A function
            counts with {1000 * overheads["turn_s"]:.0f} ms, the overhead of a whole turn, the one that sends a result
            with {1000 * assumed["reply_s"]:.0f} ms, a quick receiver's."""),
        prose(f"""Of batches, all was counted but the time of functions: two of them, one with {result["batch_inputs"]}
            inputs more, and as many runs of the same question without a batch. The price page does not say whether
            the start of a Map's child counts as a transition, so it is counted. An input that waits for its session
            takes one more each time it tries. What the Map reads and writes by itself is not in it."""),
    )


def _month(result: dict[str, Any]) -> str:
    assumed = result["assumptions"]
    return section(
        "What a stack costs a month, whatever runs",
        "overhead cost",
        result,
        table(
            ["a month", "US dollars", "made of"],
            [[row["name"], f"${sum(row['usd'].values()):.2f}", _made_of(row)] for row in result["month"]],
        ),
        prose(f"""An empty queue is asked by {assumed["pollers"]} pollers of Lambda's, each of which waits
            {assumed["poll_s"]:.0f} s for a message. A metric is paid for in the hours in which it has data; an agent
            has one more for each of its stop reasons. A turn logs {assumed["turn_log_bytes"]:,} bytes, a call
            {assumed["call_log_bytes"]:,}."""),
        "All of the above at list prices of us-east-1, without free tiers and discounts:",
        _prices(result),
    )


def _prices(result: dict[str, Any]) -> str:
    return table(
        ["price", "US dollars", "for", "source"],
        [[_NAMES[name], each["usd"], f"{each['per']:,}", each["source"]] for name, each in result["prices"].items()],
    )


def _made_of(row: dict[str, Any]) -> str:
    return ", ".join(f"{_shown(amount)} {_NAMES[name]}" for name, amount in row["amounts"].items() if amount)


def _shown(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"


def _dollars(row: dict[str, Any]) -> list[str]:
    usd, loop = row["usd"], row["loop_usd"]
    parts = [sum(usd.get(price, 0) for price in prices) for prices in _SHOWN.values()]
    shown = [f"${dollars:.2f}" for dollars in (sum(usd.values()), *parts)]
    return [row["shape"], *shown, f"${sum(loop.values()):.2f}" if loop else "cannot wait that long"]
