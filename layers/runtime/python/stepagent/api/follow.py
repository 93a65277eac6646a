"""Following a run by its journal: live, from any event, until it ends or waits for a person."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from stepagent.runs import RunId
from stepagent.store.journal import LAST_EVENTS, Event, read_events

_QUICK_S = 0.05  # while events come
_SLOW_S = 0.5  # while a tool or a person takes long
_KEEP_ALIVE_S = 15


class Progress:
    """Which calls of the last reply are still open, and which of them wait for a person."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self.questions: dict[str, dict[str, Any]] = {}
        self.ended = False

    def see(self, event: Event) -> None:
        match event.type:
            case "message.completed":
                self._open = {call["id"] for call in event.data["calls"]}
            case "tool.completed":
                self._open.discard(event.data["id"])
                self.questions.pop(event.data["id"], None)
            case "interaction.required":
                self.questions[event.data["call_id"]] = event.data
        self.ended = event.type in LAST_EVENTS

    @property
    def waits(self) -> bool:
        """Only people can make the run go on."""
        return bool(self.questions) and self._open <= set(self.questions)


async def follow(run_id: RunId, after: int, progress: Progress) -> AsyncIterator[Event | None]:
    """Events behind number `after`, as they are written; None now and then, for a sign of life.

    Ends with the run's last event, or when the run waits for a person. Earlier events are read as well where they
    have not expired, since they tell which questions are open.
    """
    seen = 0
    quiet_since = spoke_at = time.monotonic()
    while True:
        events: Sequence[Event] = await asyncio.to_thread(read_events, run_id, seen)
        for event in events:
            progress.see(event)
            seen = event.n
            if seen > after:
                yield event
        if progress.ended or (events and seen > after and progress.waits):
            return
        if not events:
            seen = max(seen, after)
        moment = time.monotonic()
        if events:
            quiet_since = spoke_at = moment
        elif moment - spoke_at > _KEEP_ALIVE_S:
            spoke_at = moment
            yield None
        await asyncio.sleep(min(_SLOW_S, max(_QUICK_S, (moment - quiet_since) / 10)))
