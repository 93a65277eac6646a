"""Soaks the product: `python -m tests.soak --runs 500 --at-once 50 --seed 1`.

Exits with 1 where anything was lost, done twice or wrong, and where a kind of fault never came that so many runs must
meet: then nothing is known of it. Linux only.

Tasks, faults of the model and repeated requests are those of the seed; which process is killed depends on time.
"""

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from tests.soak.faults import Faults, Rates
from tests.soak.report import as_json, as_table
from tests.soak.soaking import Plan, Progress, soak

_LOOKS_PER_LINE = 5  # where nobody sees a bar move: one each ten seconds


def main() -> None:
    options = _options()
    if sys.platform != "linux":
        sys.exit("A soak needs Linux: elsewhere it finds no processes to kill.")
    console, faults = Console(), Faults(options.seed, Rates())
    console.print(f"seed {options.seed}; rates {asdict(faults.rates)}", highlight=False)
    columns = (TimeElapsedColumn(), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    with (
        patch.dict(os.environ),
        tempfile.TemporaryDirectory() as folder,
        Bar(*columns, console=console, transient=True) as bar,
    ):
        looks = itertools.count()
        shown = bar.add_task("starting the stack", total=options.runs)

        def show(progress: Progress) -> None:
            going_on = progress.begun - progress.ended
            told = f"ended, {going_on} going on, {sum(progress.faults.counts.values())} faults"
            bar.update(shown, completed=progress.ended, description=told)
            if not console.is_terminal and next(looks) % _LOOKS_PER_LINE == 0:
                console.print(f"{progress.ended} of {progress.total} {told}", highlight=False)

        plan = Plan(options.runs, options.at_once, options.minutes * 60)
        report = soak(Path(folder), plan, faults, show)
    console.print(as_table(report))
    if options.json:
        options.json.write_text(json.dumps(as_json(report, options.seed), indent=1) + "\n")
    sys.exit(not report.passed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="by default another one each time")
    parser.add_argument("--minutes", type=float, default=30, help="after which a run that has not ended is lost")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all figures are written, too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
