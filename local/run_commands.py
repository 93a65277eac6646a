"""`python -m local.cli runs|show|replay`: what ran, what a run did and when, and a run once more as it looked."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.console import Console

from local.plain_errors import Verbose, plain_errors

if TYPE_CHECKING:
    from local.api_client import ApiClient, RunEvent
    from local.timeline import Timeline

_PIPE_COLUMNS = 160  # whoever reads from a pipe wants a run on a line
_QUIET_S = 2.0  # after which the events of a run that goes on count as all so far
_MOST_BELOW = 50  # runs of called agents and of steps that are shown with one

Stack = Annotated[
    str, typer.Option(envvar="STEPAGENT_STACK", help="A deployed stack, with the key of STEPAGENT_API_KEY.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `runs` lists it: run_…")]


def runs(
    status: Annotated[str, typer.Option(help="running, waiting, completed, failed or cancelled.")] = "",
    session: Annotated[str, typer.Option(help="Those of this session only.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Bring the list up to date each second.")] = False,
    stack: Stack = "",
    verbose: Verbose = False,
) -> None:
    """List your runs, the last one first."""
    from local import run_list

    with _client(stack, verbose) as client:
        console = _console()
        if follow:
            run_list.follow(lambda: client.list_runs(status, session, limit), console)
        found = client.list_runs(status, session, limit)
        if found:
            console.print(run_list.table_of(found, datetime.now(UTC)))
        else:
            nothing = f"There is no run that is {status}." if status else "There is no run yet. `make chat` begins one."
            console.print(nothing, style="dim")


def show(run_id: RunId, stack: Stack = "", verbose: Verbose = False) -> None:
    """Show what a run did and when: turns, calls, questions, agents that it called, with times and cost."""
    from local import run_in_detail
    from local.timeline import read_timeline

    with _client(stack, verbose) as client:
        run = _read_run(client, run_id)
        events = _events(client, run_id, ended=run["ended_at"] is not None)
        timeline = read_timeline(events, datetime.now(UTC)) if events else None
        rows = list(run_in_detail.rows_of(timeline, _below(client))) if timeline else []
        console = _console()
        run_in_detail.print_run(console, run, timeline, rows)
        if timeline is None:
            console.print("Its events are kept no longer, so that their times are not known.", style="dim")


def replay(
    run_id: RunId,
    speed: Annotated[float, typer.Option(min=0.01, help="How many times as fast as it was.")] = 1.0,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Keep its pace, or show it at once.")] = True,
    stack: Stack = "",
    verbose: Verbose = False,
) -> None:
    """Show a run once more as it looked in the chat. Nothing is run again: no model is asked, no tool called."""
    from local.live_view import LiveView
    from local.replay import Replay, ReplayClock
    from local.view import PlainView

    with _client(stack, verbose) as client:
        run = _read_run(client, run_id)
        events = _events(client, run_id, ended=run["ended_at"] is not None)
        if not events:
            raise RuntimeError(
                f"The events of {run_id} are kept no longer. `make show RUN={run_id}` tells what the record knows."
            )
        clock, console = ReplayClock(speed if wait else 0), Console(highlight=False)
        Console(stderr=True).print("A replay: nothing is run again.", style="dim")
        view = LiveView(console, clock) if console.is_terminal else PlainView(console)
        Replay(view, clock).play(run, events)


@contextmanager
def _client(stack: str, verbose: bool) -> Iterator["ApiClient"]:
    from local.connection import connect

    with plain_errors(verbose), connect(stack) as client:
        yield client


def _read_run(client: "ApiClient", run_id: str) -> dict[str, object]:
    """A run, or an error that says how to find the others."""
    from local.api_client import ApiError

    if not run_id:
        raise RuntimeError("Say which run: RUN=run_…, as `make runs` lists it.")
    missing = RuntimeError(f"There is no run {run_id!r} that you may see. `make runs` lists those that you may.")
    if not run_id.startswith("run_"):  # it might name another path
        raise missing
    try:
        return client.read_run(quote(run_id, safe=""))
    except ApiError as error:
        if error.code != "not_found":
            raise
        raise missing from None


def _events(client: "ApiClient", run_id: str, *, ended: bool) -> list["RunEvent"]:
    """The events so far; none where they have expired."""
    from local.api_client import ApiError

    try:
        return list(client.run_events(run_id, quiet_s=30 if ended else _QUIET_S))
    except ApiError as error:
        if error.code != "events_expired":
            raise
        return []


def _below(client: "ApiClient") -> Callable[[str], "Timeline | None"]:
    """Reads the runs that a run had others begin, as many as fit on a screen."""
    from local.timeline import read_timeline

    left = iter(range(_MOST_BELOW))

    def read(run_id: str) -> "Timeline | None":
        if next(left, None) is None:
            return None
        events = _events(client, run_id, ended=False)
        return read_timeline(events, datetime.now(UTC)) if events else None

    return read


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_COLUMNS)
