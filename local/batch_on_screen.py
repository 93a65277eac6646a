"""A batch on the screen while it runs: a bar, how many ended how, how fast, and how long it will take."""

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from local.view import counted

Batch = dict[str, Any]

_POLL_S = 0.5
_GOES_ON = ("running", "cancelling")


def follow(read: Callable[[], Batch], console: Console, sleep: Callable[[float], None] = time.sleep) -> Batch:
    """Shows a batch until it has ended, and returns it as it stands then."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.fields[of]}"),
        TextColumn("[green]{task.fields[good]} ok[/] [red]{task.fields[bad]} failed[/] {task.fields[running]} running"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        first = read()
        done_before = _done(first)
        shown = progress.add_task("preparing", total=None, of="?", good=0, bad=0, running=0, rate="")
        batch = first
        while True:
            counts = batch["counts"]
            rate = (_done(batch) - done_before) / max(0.001, time.monotonic() - began)
            progress.update(
                shown,
                description=batch["status"] if counts["total"] is not None else "preparing",
                total=counts["total"],
                completed=_done(batch),
                of="?" if counts["total"] is None else counts["total"],
                good=counts["succeeded"] or 0,
                bad=counts["failed"] or 0,
                running=counts["running"],
                rate=f"{rate:.1f}/s",
            )
            if batch["status"] not in _GOES_ON:
                return batch
            sleep(_POLL_S)
            batch = read()


def in_words(batch: Batch) -> str:
    """How a batch stands, in a line."""
    counts = batch["counts"]
    if counts["total"] is None:
        standing = "its inputs are not read yet"
    else:
        standing = f"{counts['succeeded']} of {counted(counts['total'], 'input')} succeeded, {counts['failed']} failed"
        left = f", {counts['running']} running, {counts['pending']} pending"
        standing += left if batch["status"] in _GOES_ON else ""
    why = f" {batch['failure']['message']}" if batch["failure"] else ""
    return f"Batch {batch['batch_id']} is {batch['status']}: {standing}.{why}"


def is_good(batch: Batch) -> bool:
    """Whether every input has its answer."""
    return batch["status"] == "completed" and not batch["counts"]["failed"]


def _done(batch: Batch) -> int:
    return (batch["counts"]["succeeded"] or 0) + (batch["counts"]["failed"] or 0)
