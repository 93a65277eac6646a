"""All questions that wait for a person, in whichever session: listed, answered, and what came of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.api_client import ApiClient
from local.ask_person import ask_person
from local.prompts import NobodyAnswers, Prompts
from local.view import counted, printable

_WORKS, _WAITS = "running", "waiting"
_WATCHED_S = 30  # a run that works longer is left to itself
_POLL_S = 0.3
_COLUMNS = ("", "asked", "expires", "agent / tool", "type", "question")


class Inbox:
    """What waits for the person at this terminal."""

    def __init__(self, client: ApiClient, console: Console, prompts: Prompts) -> None:
        self._client, self._console, self._prompts = client, console, prompts
        self._agents: dict[str, str] = {}  # by run

    def serve(self) -> None:
        """Lists and asks until nothing waits or the person has enough.

        Raises:
            ApiError: the API cannot be reached.
        """
        while waiting := self._client.list_pending():
            self._console.print(self._table(waiting))
            try:
                chosen = self._choose(waiting)
            except (KeyboardInterrupt, NobodyAnswers):
                return
            if chosen is None:
                return
            self._answer(chosen)
        self._prompts.show("Nothing waits for an answer.")

    def _choose(self, waiting: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The question to answer, None for none."""
        while True:
            given = self._prompts.line("answer which one? Its number, or Enter to leave")
            if not given:
                return None
            if given.isascii() and given.isdecimal() and 1 <= int(given) <= len(waiting):
                return waiting[int(given) - 1]
            self._prompts.show(f"There is no question {given}; they are numbered 1 to {len(waiting)}.", "red")

    def _answer(self, asked: Mapping[str, Any]) -> None:
        try:
            if ask_person(self._client, self._prompts, asked["interaction_id"]):
                with self._console.status("The run goes on …"):
                    run = wait_for_rest(self._client, _top_run(asked), asked["interaction_id"])
                tell_outcome(self._prompts, run)
        except KeyboardInterrupt:
            self._prompts.show("Left as it is.", "dim")

    def _table(self, waiting: Sequence[Mapping[str, Any]]) -> Table:
        table = Table(*_COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
        for column in table.columns:
            column.no_wrap = True
        now = datetime.now(UTC)
        for number, asked in enumerate(waiting, 1):
            table.add_row(*map(Text, (str(number), *self._cells(asked, now))))
        return table

    def _cells(self, asked: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
        age = now - datetime.fromisoformat(asked["created_at"])
        left = datetime.fromisoformat(asked["expires_at"]) - now
        question = printable(" ".join(asked["description"].split()))
        source = f"{self._agent_of(asked['run_id'])} / {asked['tool']}"
        return f"{in_short(age)} ago", f"in {in_short(left)}", source, asked["type"], question

    def _agent_of(self, run_id: str) -> str:
        if run_id not in self._agents:
            self._agents[run_id] = self._client.read_run(run_id)["agent"]
        return self._agents[run_id]


def _top_run(asked: Mapping[str, Any]) -> str:
    """The run that the person follows, which may have had another one ask."""
    run_id: str = (asked["top"] or asked)["run_id"]
    return run_id


def wait_for_rest(
    client: ApiClient,
    run_id: str,
    answered: str = "",
    sleep: Callable[[float], None] = time.sleep,
    patience_s: float = _WATCHED_S,
) -> dict[str, Any]:
    """A run as it stands when it has ended or waits for other answers than `answered`, or when the patience is over."""
    waited_s = 0.0
    while _works(run := client.read_run(run_id), answered) and waited_s < patience_s:
        sleep(_POLL_S)
        waited_s += _POLL_S
    return run


def _works(run: Mapping[str, Any], answered: str) -> bool:
    """Also while a run whose execution was lost, as by a restart of the stack, has yet to take its answer."""
    return run["status"] == _WORKS or (run["status"] == _WAITS and answered in run["interactions"])


def tell_outcome(prompts: Prompts, run: Mapping[str, Any]) -> None:
    """Says what became of a run."""
    match run["status"]:
        case "completed":
            prompts.show(f"The run ended with:\n{run['answer']}", "green")
        case "failed":
            why = (run.get("failure") or {}).get("message", "no reason is known")
            prompts.show(f"The run failed: {why}", "red")
        case "cancelled":
            prompts.show("The run was cancelled meanwhile.", "yellow")
        case "waiting":
            prompts.show(f"The run waits for {counted(len(run['interactions']), 'more answer')}.", "yellow")
        case _:
            prompts.show(f"The run goes on: {run['run_id']}.", "dim")


def in_short(span: timedelta) -> str:
    """A span of time in its largest unit, as in `23 h`."""
    seconds = max(0, int(span.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
