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
_SHOWN = {
    "transitions": ("transition",),
    "Lambda": ("lambda_request", "lambda_gb_s"),
    "DynamoDB": ("read_unit", "write_unit"),
}


def cost(result: dict[str, Any]) -> str:
    """The section of the page: dollars, then what they are made of."""
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
        table(
            ["price", "US dollars", "for", "source"],
            [
                [_PARTS[name], each["usd"], f"{each['per']:,}", each["source"]]
                for name, each in result["prices"].items()
            ],
        ),
    )


def _dollars(row: dict[str, Any]) -> list[str]:
    usd, loop = row["usd"], row["loop_usd"]
    parts = [sum(usd.get(price, 0) for price in prices) for prices in _SHOWN.values()]
    shown = [f"${dollars:.2f}" for dollars in (sum(usd.values()), *parts)]
    return [row["shape"], *shown, f"${sum(loop.values()):.2f}" if loop else "cannot wait that long"]
