"""A run on the screen, in detail: what happened when, as bars over time, and what it all came to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.timeline import Kind, Span, State, Timeline, walk
from local.view import counted, printable

Run = dict[str, Any]

_LEAST_BAR, _MOST_BAR = 16, 60  # columns
_PAUSE_SHARE = 0.15  # of the time in which something worked: how long a pause is drawn at most
_STYLES: dict[Kind, str] = {"turn": "cyan", "call": "blue", "question": "yellow", "step": "magenta", "mark": "dim"}
_FILLS: dict[Kind, str] = {"turn": "━", "call": "█", "question": "┄", "step": "━", "mark": "◆"}
_MARKS: dict[State, tuple[str, str]] = {"ok": ("✓", "green"), "error": ("✗", "red"), "open": ("…", "yellow")}
_STATUS = {"completed": "green", "failed": "red", "cancelled": "yellow", "waiting": "yellow", "running": "cyan"}


class Row(NamedTuple):
    """A span as it is shown: how deep it stands, and when the run ends that it is a part of."""

    depth: int
    span: Span
    end: datetime


def print_run(console: Console, run: Run, timeline: Timeline | None, rows: Sequence[Row]) -> None:
    """Shows a run with its spans; without a timeline, whose events have expired, what the record knows."""
    console.print(headline(run), soft_wrap=True)
    if timeline and rows:
        console.print()
        console.print(_chart(rows, timeline, console.width))
    console.print()
    for line in summary(run, rows):
        console.print(line, soft_wrap=True)


def rows_of(timeline: Timeline, below: Callable[[str], Timeline | None], depth: int = 0) -> Iterator[Row]:
    """The spans of a run, with those of the runs that it had others begin; `below` reads one of those."""
    for level, span in walk(timeline.spans):
        yield Row(depth + level, span, timeline.end)
        if span.run_id and (inner := below(span.run_id)):
            yield from rows_of(inner, below, depth + level + 1)


def headline(run: Run) -> Text:
    """Which run it is, and how it stands."""
    status = run["status"]
    why = f" ({run['stop_reason']})" if run["stop_reason"] and run["stop_reason"] != status else ""
    begun = datetime.fromisoformat(run["created_at"]).strftime("%Y-%m-%d %H:%M:%S UTC")
    told = f" · {printable(run['agent'])} · session {printable(run['session_id'])} · {begun}"
    return Text.assemble((run["run_id"], "bold"), "  ", (f"{status}{why}", _STATUS.get(status, "")), (told, "dim"))


def summary(run: Run, rows: Sequence[Row]) -> Iterator[Text]:
    """What it came to: time, tokens and cost, and why it failed where it did."""
    usage = run["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
    own = [row.span for row in rows if row.depth < 2]
    calls = sum(span.is_call for span in own)
    parts = [
        f"{duration(_took(run))} in all" if run["ended_at"] else f"{duration(_took(run))} so far",
        counted(run["turns"], "turn"),
        counted(calls, "call") if calls else "",
        f"{usage['prompt_tokens']:,} + {usage['completion_tokens']:,} tokens",
        f"{cached:,} cached" if cached else "",
        f"{reasoning:,} for reasoning" if reasoning else "",
        "cost not known" if run["cost_usd"] is None else f"${run['cost_usd']:.4f}",
    ]
    yield Text(" · ".join(filter(None, parts)))
    times = {kind: _busy(span for span in own if span.kind == kind) for kind in _STYLES}
    waited = [
        (times["turn"], "for models"),
        (times["call"] + times["step"], "in tools"),
        (times["question"], "for people"),
    ]
    if told := [f"{duration(took)} {what}" for took, what in waited if took]:
        yield Text(" · ".join(told), style="dim")
    if failure := run.get("failure"):
        yield Text(f"✗ {printable(failure['message'])} ({failure['code']})", style="red")
    if run["interactions"]:
        yield Text(f"It waits for {counted(len(run['interactions']), 'answer')}: `make inbox`.", style="yellow")


def duration(took: timedelta) -> str:
    """A span of time as a person reads it: in the unit that suits it."""
    seconds = max(0.0, took.total_seconds())
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


class Scale:
    """Places moments on a line. Long pauses, in which only people could have done something, are drawn short."""

    def __init__(self, rows: Sequence[Row], begin: datetime, end: datetime) -> None:
        busy = _merged((row.span.begin, row.span.end or row.end) for row in rows if row.span.kind in ("turn", "call"))
        worked = sum((stop - start for start, stop in busy), timedelta())
        longest = max(worked * _PAUSE_SHARE, timedelta(milliseconds=1))
        self._knots, place, last = [(begin, 0.0)], 0.0, begin
        for start, stop in [*busy, (end, end)]:
            place += min(max(start - last, timedelta()), longest).total_seconds()
            self._knots.append((start, place))
            place += (stop - start).total_seconds()
            self._knots.append((stop, place))
            last = stop

    def place(self, moment: datetime) -> float:
        """Between 0, the begin, and 1, the end."""
        whole = self._knots[-1][1] or 1
        for (start, low), (stop, high) in zip(self._knots, self._knots[1:], strict=False):
            if moment <= stop:
                share = (moment - start) / (stop - start) if stop > start else 1.0
                return (low + (high - low) * max(0.0, share)) / whole
        return 1.0


def _chart(rows: Sequence[Row], timeline: Timeline, width: int) -> Table:
    end = max([timeline.end, *(row.span.end or row.end for row in rows)])
    scale = Scale(rows, timeline.begin, end)
    took = [_took_text(row) for row in rows]
    after = [f"+{duration(row.span.begin - timeline.begin)}" for row in rows]
    times = max(map(len, took)) + max(map(len, after))
    bars = max(_LEAST_BAR, min(_MOST_BAR, width // 3))
    labels = min(max(_label(row).cell_len for row in rows), max(_LEAST_BAR, width // 4))
    notes = width - bars - labels - times - 5  # what is left, less a column between each two and at the end
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(no_wrap=True, overflow="ellipsis", width=labels)
    table.add_column(no_wrap=True, overflow="crop", width=bars)
    table.add_column(justify="right", no_wrap=True)
    if notes >= _LEAST_BAR:  # else they would not say much
        table.add_column(no_wrap=True, overflow="ellipsis", width=notes, style="dim")
    for begun, lasted, row in zip(after, took, rows, strict=True):
        cells = (begun, _label(row), _bar(row, scale, bars), lasted, Text(printable(" · ".join(row.span.notes))))
        table.add_row(*cells[: len(table.columns)])
    return table


def _took_text(row: Row) -> str:
    return "" if row.span.kind == "mark" else duration((row.span.end or row.end) - row.span.begin)


def _label(row: Row) -> Text:
    span = row.span
    mark = ("", "") if span.kind == "mark" else _MARKS[span.state]
    title = (printable(span.title), "bold" if span.kind == "turn" else "")
    return Text.assemble("  " * row.depth, mark, " " if mark[0] else "", title)


def _bar(row: Row, scale: Scale, width: int) -> Text:
    """Thin until the first piece of a reply came, thick from there on."""
    span, end = row.span, row.span.end or row.end
    start, stop = (round(scale.place(moment) * (width - 1)) for moment in (span.begin, end))
    first = round(scale.place(span.first) * (width - 1)) if span.first else start
    cells = "".join("─" if cell < first else _FILLS[span.kind] for cell in range(start, stop + 1))
    return Text(" " * start + cells, style=_STYLES[span.kind])


def _took(run: Run) -> timedelta:
    end = datetime.fromisoformat(run["ended_at"]) if run["ended_at"] else datetime.now().astimezone()
    return end - datetime.fromisoformat(run["created_at"])


def _busy(spans: Iterable[Span]) -> timedelta:
    """How long at least one of them went on."""
    closed = ((span.begin, span.end) for span in spans if span.end)
    return sum((stop - start for start, stop in _merged(closed)), timedelta())


def _merged(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """The same times without overlaps."""
    merged: list[tuple[datetime, datetime]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged
