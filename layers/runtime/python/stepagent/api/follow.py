"""Following a run by its journal: live, from any event, until it ends or waits for a person."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from stepagent.runs import ENDED, RunId, RunKey
from stepagent.store.journal import LAST_EVENTS, Event, read_events
from stepagent.store.runs import load_run

_QUICK_S = 0.05  # while events come
_SLOW_S = 0.5  # while a tool or a person takes long
_KEEP_ALIVE_S = 15
SILENT_S = 4.5 * 60  # API Gateway ends a response on which nothing came for 5 minutes
_LONGEST_S = 14 * 60  # a function ends after 15 minutes, and says nothing then


class Progress:
    """Which calls of the last reply are open, and which questions to people; several may stand behind one call."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self.questions: dict[str, dict[str, Any]] = {}
        self.ended = False

    def see(self, event: Event) -> None:
        match event.type:
            case "turn.started":  # only when every call has its result, whatever of that is told later
                self._open, self.questions = set(), {}
            case "message.completed":
                steps = {step["call_id"] for step in event.data.get("steps", ())}
                self._open = {call["id"] for call in event.data["calls"]} | steps
            case "tool.completed":
                self._close(event.data["id"])
            case "step.completed":
                self._close(event.data["call_id"])
            case "interaction.required":
                self.questions[event.data["interaction_id"]] = event.data
            case "interaction.resolved":
                self._drop(lambda question: bool(question["interaction_id"] == event.data["interaction_id"]))
        self.ended = event.type in LAST_EVENTS

    @property
    def waits(self) -> bool:
        """Only people can make the run go on."""
        return bool(self.questions) and self._open <= {question["call_id"] for question in self.questions.values()}

    def _close(self, call_id: str) -> None:
        self._open.discard(call_id)
        self._drop(lambda question: bool(question["call_id"] == call_id))

    def _drop(self, is_over: Callable[[dict[str, Any]], bool]) -> None:
        self.questions = {id_: question for id_, question in self.questions.items() if not is_over(question)}


async def follow(
    run_id: RunId, after: int, progress: Progress | None, longest_s: float | None = None
) -> AsyncIterator[Event | None]:
    """Events behind number `after`, as they are written; None now and then, for a sign of life.

    Ends with the run's last event, or after `longest_s`, without it after 14 minutes. Where no event has come for 15
    seconds the record says whether it ends. With `progress` it ends as well when the run waits for a person, and
    earlier events are read too where they have not expired, since they tell which questions are open.
    """
    seen, see = (0, progress.see) if progress else (after, _ignore)
    began = quiet_since = spoke_at = time.monotonic()
    while time.monotonic() - began < (_LONGEST_S if longest_s is None else longest_s):
        events = await asyncio.to_thread(read_events, run_id, seen)
        for event in events:
            see(event)
            seen = event.n
            if seen > after:
                yield event
        moment = time.monotonic()
        if events:
            if _is_last(events[-1], after, progress):
                return
            quiet_since = spoke_at = moment
        elif moment - spoke_at > _KEEP_ALIVE_S:
            if await asyncio.to_thread(_is_at_rest, run_id, waiting_too=progress is not None):
                return
            spoke_at = moment
            yield None
        seen = seen if events else max(seen, after)
        await asyncio.sleep(min(_SLOW_S, max(_QUICK_S, (moment - quiet_since) / 10)))


def _ignore(event: Event) -> None:
    """Nobody asks which questions are open."""


def _is_last(event: Event, after: int, progress: Progress | None) -> bool:
    """Whether a follower has read enough with this event."""
    return event.type in LAST_EVENTS or (progress is not None and event.n > after and progress.waits)


def _is_at_rest(run_id: RunId, *, waiting_too: bool) -> bool:
    """Whether a run has ended or waits, by its record: an event is lost where a function dies before it writes it."""
    run = load_run(RunKey.parse(run_id))
    return run is None or run.status in ENDED or (waiting_too and bool(run.pending))
