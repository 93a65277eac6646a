"""Runs case files against the product: `python -m tests.conformance.run [FILE.jsonl] [ID …]`.

One line a case, as it ends; the last line counts. Exit code 1 where a case failed.
"""

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.conformance.api_driver import drive_api
from tests.conformance.aws_driver import drive_aws
from tests.conformance.cases import FOLDER, Case, Skipped, Unsupported, load_cases
from tests.conformance.evidence import Evidence
from tests.conformance.loop_driver import drive
from tests.conformance.plan import is_loop, plan, row_of
from tests.conformance.pure_driver import drive_history, drive_tools
from tests.conformance.stage import Stage, stage
from tests.conformance.verdict import judge, unknown_keys

_AT_ONCE = 6  # most of a run is waiting: for functions to start, for tools and for time-outs
_PURE: dict[str, Callable[[Case], Sequence[Evidence]]] = {
    "tools": lambda case: list(drive_tools(case)),
    "history": lambda case: list(drive_history(case)),
}


class Result(NamedTuple):
    verdict: str
    case: Case
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} {self.case.id} {self.reason}".rstrip().replace("\n", " ")


def run_case(case: Case, number: int, on: Stage | None) -> Result:
    """Drives and judges one case; whatever goes wrong with it is its result."""
    if unknown := unknown_keys(case):
        return Result("FAIL", case, f"unknown assertion key {', '.join(unknown)}")
    try:
        complaints = judge(case, _evidence(case, number, on))
    except Skipped as reason:
        return Result("SKIP", case, str(reason))
    except Unsupported as reason:
        return Result("FAIL", case, str(reason))
    except Exception as error:  # one case must not end the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Result("FAIL", case, f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
    return Result("FAIL" if complaints else "PASS", case, "; ".join(complaints[:3]))


def _evidence(case: Case, number: int, on: Stage | None) -> Sequence[Evidence]:
    if case.kind in _PURE:
        return _PURE[case.kind](case)
    if on is None:
        raise Unsupported("needs the local stack")
    if is_loop(case):
        return [drive(on, each) for each in plan(case, number)]
    if case.kind == "api_request":
        return list(drive_api(on, case))
    if case.kind in ("aws", "aws_event"):
        return list(drive_aws(on, case, f"case-{number}-0"))
    raise Unsupported(f"unknown kind {case.kind!r}")


def run_all(cases: Sequence[Case], show: Callable[[Result], None]) -> list[Result]:
    """Runs all cases, several at once; each is shown as it ends."""
    with ExitStack() as stack:
        on = stack.enter_context(stage(_rows(cases))) if any(case.kind not in _PURE for case in cases) else None
        pool = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        waiting = [pool.submit(run_case, case, number, on) for number, case in _longest_first(cases)]
        for future in waiting:
            future.add_done_callback(lambda done: show(done.result()))
        return [future.result() for future in waiting]


def _longest_first(cases: Sequence[Case]) -> list[tuple[int, Case]]:
    """Those that wait for time-outs begin first, so that nothing waits for them at the end."""
    slow = ("repeat_s", "run_s", "responses", "tool_timeout_ms", "tool_delay_ms", "expire_after_s")
    return sorted(enumerate(cases), key=lambda each: not any(name in each[1].input for name in slow))


def _rows(cases: Sequence[Case]) -> list[tuple[str, dict[str, object]]]:
    """A model's row for every run of a case; a case that cannot be planned gets one all the same."""
    rows: list[tuple[str, dict[str, object]]] = []
    for number, case in enumerate(cases):
        try:
            planned = plan(case, number) if is_loop(case) else []
        except Exception:  # it is told where the case is run
            planned = []
        rows += [(each.name, each.row) for each in planned]
        if not planned:
            rows += [(f"case-{number}-0{suffix}", row_of(case)) for suffix in ("", "-0", "-1", "-2", "-3", "-4")]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=FOLDER / "shared.jsonl")
    parser.add_argument("ids", nargs="*", help="run these cases only")
    options = parser.parse_args()
    began = time.monotonic()
    cases = [case for case in load_cases(options.file) if not options.ids or case.id in options.ids]
    results = run_all(cases, lambda result: print(f"{result}\n", end="", flush=True))
    count = {verdict: sum(result.verdict == verdict for result in results) for verdict in ("PASS", "FAIL", "SKIP")}
    print(f"# {len(results)} cases in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped", flush=True)
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # faults are what many cases are about
    sys.exit(main())
