"""The list of runs on the screen, once or again and again."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from local.inbox import in_short
from local.run_in_detail import duration
from local.view import printable

Run = dict[str, Any]

_COLUMNS = ("status", "agent", "session", "begun", "took", "turns", "tokens", "cost", "stop reason", "run")
_NUMBERS = frozenset({"took", "turns", "tokens", "cost"})
_STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow", "waiting": "yellow", "running": "cyan"}
_REFRESH_S = 1.0


def table_of(runs: Sequence[Run], moment: datetime) -> Table:
    """The runs as they stand at a moment, the last one first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in _COLUMNS:  # ids are not cut, since people copy them
        table.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            no_wrap=True,
            overflow="fold" if name == "run" else "ellipsis",
        )
    for run in runs:
        status, *cells = _cells(run, moment)
        table.add_row(Text(status, style=_STYLES.get(status, "")), *map(Text, cells))
    return table


def follow(read: Callable[[], Sequence[Run]], console: Console, sleep: Callable[[float], None] = time.sleep) -> None:
    """Shows the list and brings it up to date each second, until somebody breaks it off."""
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(table_of(read(), datetime.now(UTC)), refresh=True)
            sleep(_REFRESH_S)


def _cells(run: Run, moment: datetime) -> tuple[str, ...]:
    begun = datetime.fromisoformat(run["created_at"])
    ended = datetime.fromisoformat(run["ended_at"]) if run["ended_at"] else moment
    return (
        run["status"],
        printable(run["agent"]),
        printable(run["session_id"]),
        f"{in_short(moment - begun)} ago",
        duration(ended - begun),
        str(run["turns"]),
        f"{run['usage']['total_tokens']:,}",
        "?" if run["cost_usd"] is None else f"${run['cost_usd']:.4f}",
        run["stop_reason"] or "",
        run["run_id"],
    )
