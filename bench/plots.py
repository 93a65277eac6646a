"""Draws the figures of bench.json: `python bench/plots.py bench.json FOLDER`, in the environment of the peers.

Colours are between light and dark, on no ground, so that the pictures can be read on both. The same figures give the
same files, and each file names the figures that it shows by their digest.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

INK = "#7d8590"
COLOURS = {"stepagent": "#e8590c", "openai-agents": "#4c8dd6", "langgraph": "#2f9e6e", "pydantic-ai": "#9a6dd7"}
PARTS = {
    "Step Functions": ("transition",),
    "Lambda": ("lambda_request", "lambda_gb_s"),
    "DynamoDB": ("read_unit", "write_unit"),
    "others": ("s3_read", "s3_write", "api_request", "sqs_request", "event"),
}
_FIGURES = "Figures of bench.json, digest "


def main() -> None:
    import matplotlib as mpl  # noqa: PLC0415  # the rest of this module is read without it

    results, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "stepagent", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}
    )
    mpl.rcParams.update(dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK))
    mpl.rcParams.update({"axes.edgecolor": INK, "axes.spines.top": False, "axes.spines.right": False})
    draw(results, folder)


def draw(results: dict[str, Any], folder: Path) -> None:
    """A picture of each section that was measured; one of a section that was not goes."""
    for name, drawing in DRAWINGS.items():
        file = folder / f"bench-{name}.svg"
        if name in results:
            about = {"Date": None, "Description": f"{_FIGURES}{digest(results[name])}"}
            drawing(results[name]).savefig(file, transparent=True, metadata=about)
        else:
            file.unlink(missing_ok=True)


def digest(result: dict[str, Any]) -> str:
    """Names the figures of a section."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]


def shown(picture: Path) -> str:
    """The digest of the figures that a picture shows, or nothing where it says none."""
    found = re.search(rf"{_FIGURES}([0-9a-f]+)", picture.read_text())
    return found[1] if found else ""


def _figure(plots: int, height: float = 2.8) -> Any:
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt.subplots(1, plots, figsize=(8, height), layout="constrained", squeeze=False)


def _overhead(result: dict[str, Any]) -> Any:
    """By calls, and from turn to turn of the longest runs with one call."""
    figure, ((by_calls, by_turn),) = _figure(2)
    turns = sorted({row["turns"] for row in result["rows"]})
    calls = sorted({row["calls"] for row in result["rows"]})
    for system, colour in COLOURS.items():
        rows = {(row["calls"], row["turns"]): row for row in result["rows"] if row["system"] == system}
        at = [rows[each, turns[1]] for each in calls]
        by_calls.plot(calls, [row["median_ms"] for row in at], "o-", color=colour, label=system, markersize=4)
        series = rows[1, turns[-1]]["by_turn_ms"]
        by_turn.plot(range(1, len(series) + 1), series, color=colour)
    by_calls.set(xlabel="calls a turn", ylabel="ms of overhead a turn", xticks=calls, ylim=0, title=f"{turns[1]} turns")
    by_turn.set(xlabel="turn", ylim=0, title="1 call a turn")
    by_calls.legend(frameon=False)
    return figure


def _growth(result: dict[str, Any]) -> Any:
    figure, (plots,) = _figure(3)
    titles = {
        "state_bytes": "bytes through the states",
        "requests": "DynamoDB requests",
        "received_bytes": "bytes read",
    }
    shades = ("#adb5bd", "#f4a261", "#e8590c", "#9c3a06")
    for plot, (metric, title) in zip(plots, titles.items(), strict=True):
        for row, shade in zip(result["rows"], shades, strict=True):
            values = row["by_turn"][metric]
            plot.plot(range(1, len(values) + 1), values, color=shade, label=f"{row['calls']} calls")
        plot.set(xlabel="turn", ylim=0, title=f"{title} a turn")
    plots[0].legend(frameon=False, fontsize=7)
    return figure


def _cold(result: dict[str, Any]) -> Any:
    rows = sorted(result["rows"], key=lambda row: float(row["source_ms"]))
    figure, ((plot,),) = _figure(1, 0.6 + 0.17 * len(rows))
    names = [row["function"] for row in rows]
    plot.barh(names, [row["source_ms"] for row in rows], color="#ced4da", label="from source")
    compiled = [row["compiled_ms"] for row in rows]
    plot.barh(names, compiled, color=COLOURS["stepagent"], label="compiled, as sam build leaves it")
    plot.set(xlabel="ms of CPU to import")
    plot.legend(frameon=False, loc="lower right")
    return figure


def _cost(result: dict[str, Any]) -> Any:
    figure, ((plot,),) = _figure(1)
    bars = [(row["shape"], "usd", row["usd"]) for row in result["rows"]]
    bars += [(row["shape"], "loop", row["loop_usd"] or {}) for row in result["rows"]]
    shades = dict(zip(PARTS, ("#e8590c", "#4c8dd6", "#2f9e6e", "#adb5bd"), strict=True))
    shapes = [row["shape"] for row in result["rows"]][::-1]
    for part, prices in PARTS.items():
        for shape, side, usd in bars:
            left = sum(usd.get(name, 0) for before in list(PARTS)[: list(PARTS).index(part)] for name in PARTS[before])
            width, place = (
                sum(usd.get(name, 0) for name in prices),
                shapes.index(shape) + (0.2 if side == "usd" else -0.2),
            )
            label = part if (shape, side) == bars[0][:2] else None
            plot.barh(place, width, 0.36, left, color=shades[part], alpha=1 if side == "usd" else 0.55, label=label)
    plot.set(xlabel="US dollars for 1,000 runs; paler: on a plain loop in one Lambda")
    plot.set_yticks(range(len(shapes)), [_wrapped(shape) for shape in shapes])
    plot.legend(frameon=False, loc="lower right")
    return figure


def _wrapped(text: str) -> str:
    first, _, rest = text.partition(", ")
    return f"{first}\n{rest}" if rest else first


DRAWINGS = {"overhead": _overhead, "growth": _growth, "cold": _cold, "cost": _cost}

if __name__ == "__main__":
    main()
