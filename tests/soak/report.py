"""The figures of a soak, for people and for programs."""

from collections import Counter
from typing import Any

from rich.table import Table

from tests.soak.soaking import Report

_SHOWN = 20  # of what went wrong, of each kind


def as_table(report: Report) -> Table:
    table = Table(show_header=False, box=None, highlight=False)
    for name, value in _figures(report).items():
        table.add_row(name, str(value))
    for name, found in _faults_found(report).items():
        table.add_row(name, str(len(found)), style="bold red" if found else "bold green")
        for what in found[:_SHOWN]:
            table.add_row("", what)
    return table


def as_json(report: Report, seed: int) -> dict[str, Any]:
    return {"seed": seed, **_figures(report), "faults": report.faults, **_faults_found(report)}


def lines(report: Report) -> list[str]:
    """The same in plain lines."""
    counts = {**_figures(report), **{name: len(found) for name, found in _faults_found(report).items()}}
    return [f"{name}: {value}" for name, value in counts.items()]


def _figures(report: Report) -> dict[str, Any]:
    ended = ", ".join(f"{number} {status}" for status, number in sorted(report.statuses.items()))
    failures = Counter(verdict.failure for verdict in report.verdicts if verdict.failure)
    return {
        "runs started": f"{len(report.verdicts)}, {report.plan.at_once} at once, in {report.took_s:.0f} s",
        "peak memory of the stack": f"{report.memory_mb:.0f} MB",
        "ended": ended,
        "failures": "; ".join(f"{number} x {what}" for what, number in failures.most_common()) or "none",
        "calls": sum(verdict.calls for verdict in report.verdicts),
        "told to be unknown": sum(verdict.unknown for verdict in report.verdicts),
        **{f"fault: {kind}": number for kind, number in sorted(report.faults.items())},
    }


def _faults_found(report: Report) -> dict[str, list[str]]:
    return {
        "lost": report.lost,
        "duplicated effects": report.duplicated,
        "wrong results": report.all_wrong,
        "kinds of faults that never came": report.never_came,
    }
