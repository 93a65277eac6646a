"""Measures everything, or what is named, and writes it down: `python -m bench` or `python -m bench overhead cost`.

The figures go to docs/bench.json, and from there into docs/benchmarks.md and its pictures. With QUICK=1 all is smaller
and goes to .local/bench. Cost stands on overhead: where that alone is measured, the cost of before is left out.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import cold, cost, growth, overhead, plots, report, strategies, streams
from bench.peers import PYTHON
from bench.progress import Steps, progress

NAMES = ("overhead", "growth", "cold", "streams", "strategies", "cost")  # cost stands on overhead
_ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; none means all")
    names = parser.parse_args().names or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    quick = os.environ.get("QUICK", "") not in ("", "0")
    folder = _ROOT / (".local/bench" if quick else "docs")
    console = Console()
    bench(names, folder, quick, console)
    console.print(f"All figures, and how they were measured: {(folder / 'benchmarks.md').relative_to(_ROOT)}")


def bench(names: Collection[str], folder: Path, quick: bool, console: Console) -> None:
    """Measures what is named, and writes it down in a folder, beside what was measured there before."""
    results = _load(folder / "bench.json")
    for name in (name for name in NAMES if name in names):
        results[name] = _measure(name, quick, results, console)
        for line in _lines(name, results[name]):
            console.print(line, highlight=False, soft_wrap=True)
        if name == "overhead" and results.pop("cost", None) and "cost" not in names:
            console.print("What runs cost stood on the overhead of before and is left out: make bench ONLY=cost")
        results["machine"] = _machine()
        _write(folder, results)  # what a later one cannot undo


def _load(file: Path) -> dict[str, Any]:
    """What was measured before, so that a single measurement is replaced alone."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _measure(name: str, quick: bool, results: dict[str, Any], console: Console) -> dict[str, Any]:
    load, began = os.getloadavg()[0], time.monotonic()
    with progress(console) as shown:
        steps = Steps(shown, name)
        match name:
            case "overhead":
                found = overhead.measure(quick, steps)
            case "growth":
                found = growth.measure(quick, steps)
            case "cold":
                found = cold.measure(quick, steps)
            case "streams":
                found = streams.measure(quick, steps)
            case "strategies":
                found = strategies.measure(quick, steps)
            case _:
                if "overhead" not in results:
                    raise SystemExit("cost stands on what overhead measured: python -m bench overhead cost")
                found = cost.measure(quick, steps, cost.overheads_of(results["overhead"]))
        steps.end()
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"at": at, "load_before": round(load, 2), "took_s": round(time.monotonic() - began), **found}


def _lines(name: str, result: dict[str, Any]) -> list[str]:
    tellers = dict(zip(NAMES, (overhead, growth, cold, streams, strategies, cost), strict=True))
    return list(tellers[name].lines(result))


def _machine() -> dict[str, Any]:
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in described.splitlines() if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "emulator": f"ministack {importlib.metadata.version('ministack')}",
        "peers": _peer_versions(),
    }


def _peer_versions() -> dict[str, str]:
    names = ("openai-agents", "langgraph", "langgraph-checkpoint-sqlite", "pydantic-ai-slim")
    asking = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {names!r}}}))"
    told: dict[str, str] = json.loads(subprocess.check_output([PYTHON, "-c", asking], text=True))
    return told


def _write(folder: Path, results: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "benchmarks.md").write_text(report.page(_load(folder / "bench.json")))
    _draw(folder / "bench.json", folder)


def _draw(figures: Path, folder: Path) -> None:
    subprocess.run([PYTHON, plots.__file__, figures, folder], check=True)


if __name__ == "__main__":
    main()
