"""The page of the benchmarks, written from their figures and from nothing else."""

from collections.abc import Callable
from typing import Any

from bench.markdown import picture, prose, section, table
from bench.report_cost import cost
from local.sam.image import VERSION

_NAMES = {
    "entries": "state entries",
    "state_bytes": "bytes through the states",
    "requests": "DynamoDB requests",
    "sent_bytes": "bytes sent to DynamoDB",
    "received_bytes": "bytes received from it",
    "read_units": "read units",
    "write_units": "write units",
}


def page(results: dict[str, Any]) -> str:
    """Markdown for `docs/benchmarks.md`: the machine, and each section that was measured."""
    sections = [told(results[name]) for name, told in SECTIONS.items() if name in results]
    return "\n\n".join([_opening(results["machine"]), *sections]) + "\n"


def _opening(machine: dict[str, Any]) -> str:
    peers = ", ".join(f"{name} {version}" for name, version in machine["peers"].items())
    what = prose("""`make bench` measures all of this anew, writes the figures to [bench.json](bench.json), and from
            them this page and its pictures: do not edit either. `make bench ONLY=overhead` measures one part;
            `QUICK=1` less of each, into `.local/bench`.""")
    where = prose(f"""Here on {machine["cores"]} cores ({machine["processor"]}, {machine["system"]}), Python
            {machine["python"]}, with {machine["emulator"]} as AWS. Beside it {peers}. Nothing of it was measured on
            AWS.""")
    return f"# Benchmarks\n\n{what}\n\n{where}"


def _overhead(result: dict[str, Any]) -> str:
    rows = {(row["system"], row["calls"], row["turns"]): row for row in result["rows"]}
    systems, calls, turns = (list(dict.fromkeys(place)) for place in zip(*rows, strict=True))
    overheads = table(
        ["calls a turn", "turns", *systems],
        [
            [str(k), str(n), *(f"{rows[name, k, n]['median_ms']:.0f} ms" for name in systems)]
            for k in calls
            for n in turns
        ],
    )
    slopes = table(
        ["calls a turn", *systems],
        [[str(k), *(f"{rows[name, k, turns[-1]]['slope_ms']:+.2f} ms" for name in systems)] for k in calls],
    )
    return section(
        "What the runtime costs a turn",
        "overhead",
        result,
        picture("Overhead a turn, by calls and by turn", "overhead"),
        overheads,
        f"How much more a turn costs than the one before it, over {turns[-1]} turns:",
        slopes,
        prose(f"""Wall time less the time that the scripted model spoke, for each request to it: the median of
            {result["runs"]} runs. The model streams every reply at one pace and times itself; the tool multiplies
            two numbers. All systems hold the same conversations with it, in turns with each other. Without calls, n
            questions are asked in one session; else one question takes n turns and an answer."""),
        prose("""A question begins with the call, and ends when all is written: for a peer, in its own process, with the
            return of the call that answers and writes; for StepAgent when the execution has ended (its `stopDate`, to
            the millisecond), behind the last turn, the last event of the journal, and the word to whoever waits."""),
        prose("""The peers run the model's client, the loop and the tool in one process, and lose with it whatever
            they have not written. StepAgent crosses a process for each think and each call, through the state
            machine. What each has on disk, and when:"""),
        "\n".join(f"- **{name}**: {what}" for name, what in result["kept"].items()),
    )


def _growth(result: dict[str, Any]) -> str:
    last = result["turns"]
    shown = (1, last // 2, last)
    return section(
        "What a turn moves, as a run grows",
        "growth",
        result,
        picture("Bytes through the states, DynamoDB requests and bytes read, by turn", "growth"),
        *(
            table(
                [f"calls a turn: {row['calls']}", *(f"turn {turn}" for turn in shown), "more each turn"],
                [
                    [
                        title,
                        *(f"{row['by_turn'][name][turn - 1]:,.0f}" for turn in shown),
                        f"{row['slopes'][name]:+,.2f}",
                    ]
                    for name, title in _NAMES.items()
                ],
            )
            for row in result["rows"]
        ),
        prose(f"""The largest input or output of a state had
            {max(row["largest_state_bytes"] for row in result["rows"]):,} bytes. A front of the emulator counts every
            request that any process of the product makes. Write units are the emulator's, by the size of items; read
            units are computed from what was read, by the documented rules. The emulator lists no events inside a
            Map, so a call counts as the definition has it: two entries, and its item three times. The process of
            `think` keeps what it has read of a conversation, so a turn reads what is new; another process reads all
            of it once, in one query."""),
    )


def _cold(result: dict[str, Any]) -> str:
    rows = sorted(result["rows"], key=lambda row: -float(row["compiled_ms"]))
    return section(
        "What a cold start imports",
        "cold",
        result,
        picture("CPU of imports", "cold"),
        table(
            ["function", "from source", "compiled, as `sam build` leaves it"],
            [[f"`{row['function']}`", f"{row['source_ms']:.0f} ms", f"{row['compiled_ms']:.0f} ms"] for row in rows],
        ),
        prose(f"""CPU time (user and system) of `import app` in a fresh process, the least of {result["runs"]}, under
            this machine's Python {result["python"]}; Lambda runs {VERSION}. `sam build` compiles the layer, and the
            functions that bring packages of their own (`compileall --invalidation-mode unchecked-hash`); the other
            functions' own few files stay source. Python's own library is compiled in both."""),
    )


def _streams(result: dict[str, Any]) -> str:
    return section(
        "How long a delta takes",
        "streams",
        result,
        table(
            ["from the model to the client", ""],
            [
                ["median", f"{result['median_ms']:.0f} ms"],
                ["95 of 100 within", f"{result['p95_ms']:.0f} ms"],
                ["the slowest", f"{result['max_ms']:.0f} ms"],
            ],
        ),
        prose(f"""{result["streams"]} clients follow at once, {result["complete"]} of them to the end;
            {result["speaking"]} models speak at once, as many as the local stack lets run. The model writes into
            each of {result["deltas"]:,} deltas when it leaves. A delta waits up to 120 ms for others, and a follower
            looks for news in steps."""),
    )


def _strategies(result: dict[str, Any]) -> str:
    rows = {(row["task"], row["way"]): row for row in result["rows"]}
    tasks, ways = list(dict.fromkeys(task for task, _ in rows)), result["ways"]
    pace = result["pace"]
    return section(
        "Step by step, or by a plan",
        "strategies",
        result,
        *(
            table([title, *ways], [[task, *(show(rows[task, way]) for way in ways)] for task in tasks])
            for title, show in _STRATEGY_FIGURES
        ),
        prose(f"""Ten tasks, each part of which takes one tool call. The model is a script that asks for as many calls
            at once as it can in either way; it speaks after {pace["first_token_s"] * 1000:.0f} ms and then takes
            {pace["each_token_s"] * 1000:.0f} ms a token of 4 characters, by which tokens are counted. All runs that a
            plan begins count. Times are medians of {result["runs"]} runs; the other figures were the same in each."""),
        prose("""What a script cannot tell is which way a model answers better with. It tells the price: a plan costs
            two model calls for itself, one more for each part, and one for each look at it. It saves where parts are
            long, since each is a conversation of its own that none of the others reads."""),
    )


_STRATEGY_FIGURES: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("model calls", lambda row: str(row["calls"])),
    ("tokens, in + out", lambda row: f"{row['input_tokens']:,} + {row['output_tokens']:,}"),
    ("state entries", lambda row: str(row["entries"])),
    ("seconds", lambda row: f"{row['seconds']:.1f}"),
)

SECTIONS: dict[str, Callable[[dict[str, Any]], str]] = {
    "overhead": _overhead,
    "growth": _growth,
    "cold": _cold,
    "streams": _streams,
    "strategies": _strategies,
    "cost": cost,
}
