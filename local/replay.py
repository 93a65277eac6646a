"""A run once more in the chat's view, from its events: as fast as it was, faster, or at once. Nothing is run again."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from local.api_client import RunEvent
from local.run_in_detail import duration
from local.view import Closing, View, arguments_line, shortened, show_planning

Run = dict[str, Any]

LONGEST_PAUSE_S = 3.0  # of a replay; people's hours are not sat out


class ReplayClock:
    """The time of what is replayed, in seconds: it goes on at a speed, and jumps over long pauses."""

    def __init__(
        self,
        speed: float,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """A speed of 0 waits for nothing."""
        self._speed, self._sleep, self._monotonic = speed, sleep, monotonic
        self._at, self._since = 0.0, monotonic()

    def __call__(self) -> float:
        passed = (self._monotonic() - self._since) * self._speed
        return self._at + min(passed, LONGEST_PAUSE_S * self._speed)

    def wait_until(self, at: float) -> float:
        """Lets the time pass up to a moment; returns the seconds of it that were left out."""
        pause = (at - self._at) / self._speed - (self._monotonic() - self._since) if self._speed else 0.0
        self._sleep(max(0.0, min(pause, LONGEST_PAUSE_S)))
        self._at, self._since = at, self._monotonic()
        return max(0.0, pause - LONGEST_PAUSE_S) * self._speed


class Replay:
    """Shows the events of a run in a view, each when its time has come."""

    def __init__(self, view: View, clock: ReplayClock) -> None:
        self._view, self._clock = view, clock
        self._names: dict[str, str] = {}  # of tools, by call
        self._steps: set[str] = set()  # of its plan, those that ran
        self._closing = Closing()

    def play(self, run: Run, events: Sequence[RunEvent]) -> None:
        """Shows them all. A view that was begun is ended whatever happens."""
        begin = _at(events[0])
        self._view.begin()
        shown = False
        try:
            for event in events:
                left_out_s = self._clock.wait_until((_at(event) - begin).total_seconds())
                if left_out_s >= 1:
                    self._view.note(f"({duration(timedelta(seconds=left_out_s))} left out)")
                self._show(event)
            shown = True
        finally:
            self._view.end(self._close(run, _at(events[-1]) - begin) if shown else None)

    def _show(self, event: RunEvent) -> None:
        data = event.data
        match event.type:
            case "turn.started":
                self._view.turn(f"turn {data['turn']}")
            case "message.delta":
                self._say(data)
            case "tool.started":
                self._names[data["id"]] = data["name"]
                self._view.called(data["id"], data["name"], arguments_line(data["arguments"]))
            case "tool.completed":
                self._closing.calls += 1
                self._view.returned(data["id"], data["name"], shortened(data["text"]), is_error=data["is_error"])
            case _:
                self._note(event.type, data)

    def _note(self, what: str, data: dict[str, Any]) -> None:
        match what:
            case "interaction.required":
                self._view.note(f"asks: {shortened(data['description'])}")
            case "interaction.resolved":
                self._view.note(f"{data['status']}.")
            case _:
                show_planning(self._view, what, data)
                if what == "step.completed":
                    self._steps.add(data["id"])

    def _say(self, data: dict[str, Any]) -> None:
        if reasoning := data.get("reasoning"):
            self._view.reasoning(reasoning)
        if text := data.get("text") or data.get("refusal"):
            self._view.text(text)

    def _close(self, run: Run, took: timedelta) -> Closing:
        closing, usage = self._closing, run["usage"]
        closing.status, closing.run_id, closing.turns = run["status"], run["run_id"], run["turns"]
        closing.steps = len(self._steps)
        closing.tokens = (usage["prompt_tokens"], usage["completion_tokens"])
        closing.seconds = took.total_seconds()
        closing.failure = (run.get("failure") or {}).get("message", "")
        return closing


def _at(event: RunEvent) -> datetime:
    return datetime.fromisoformat(event.at)
