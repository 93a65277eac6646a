"""A run's journal as server-sent events: replayed from any number, then followed live until the run ends.

Each event's id is its number, so a browser's EventSource goes on by itself where a connection broke: it sends the last
number that it read, and gets what follows it. What it reads that way is, event by event, what one connection that never
broke would have carried.
"""

import time
from collections.abc import AsyncIterator
from datetime import timedelta

from stepagent.api import shapes
from stepagent.api.follow import follow
from stepagent.api.query import Query
from stepagent.api.service import read_run
from stepagent.clock import now
from stepagent.errors import Expired, InvalidRequest
from stepagent.observe import logger
from stepagent.runs import Principal, Run, RunId
from stepagent.store.journal import LAST_EVENTS, Event, last_event, read_events

# Sent first, so that the first byte comes at once. How long a client waits before it connects again: no longer than it
# takes to notice, since a stream ends every 14 minutes.
_OPENING = b"retry: 1000\n\n"
_TO_BE_CONTINUED = b": connect again for what follows\n\n"
_SETTLES_S = 0.05  # at first, then twice as long each time: a read may lag behind what was written
_READS = 6
_KEPT_AT_LEAST = timedelta(days=1)  # by every deployment, so that events of young runs need no look
_LAST_IS_TOLD = timedelta(minutes=1)  # a last event is written right after a run has ended


class EventsQuery(Query):
    """For clients that cannot set `Last-Event-ID`, which wins: the number of the last event that is known."""

    after: str = "0"


def read_place(last_event_id: str | None, query: EventsQuery) -> int:
    """The number of the last event that the client has read, 0 for none.

    Raises:
        InvalidRequest: it is none.
    """
    where, text = ("Last-Event-ID", last_event_id) if last_event_id else ("after", query.after)
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InvalidRequest(f"'{where}' is the number of an event, such as 3.", where)
    return int(text)


def find_events(run_id: str, principal: Principal, after: int) -> Run | None:
    """The run whose events behind number `after` can be followed; None where there will never be any.

    Raises:
        NotFound: there is no such run, or it is another principal's.
        InvalidRequest: the run has no event of that number yet.
        Expired: those events are kept no longer.
    """
    run = read_run(run_id, principal)
    last = last_event(run.run_id)
    if last is None:
        raise _expired(run, after)
    if after > last.n:
        raise InvalidRequest(f"Run {run.run_id} has {last.n} events so far, so none has the number {after}.", "after")
    if after == last.n:
        return None if _is_over(run, last) else run
    if now() - run.created_at > _KEPT_AT_LEAST and not _next_stands(run.run_id, after):
        raise _expired(run, after)
    return run


async def stream_events(run: Run, after: int) -> AsyncIterator[bytes]:
    """The events of a run behind number `after`, until its last one, or for 14 minutes."""
    yield _OPENING
    try:
        async for event in follow(run.run_id, after, None):
            if event is None:
                continue
            yield event_bytes(event)
            if event.type in LAST_EVENTS:
                return
    except Exception:
        logger.exception("event stream broke", extra={"run_id": run.run_id})
    yield _TO_BE_CONTINUED


def event_bytes(event: Event) -> bytes:
    """One event of the journal, always in the same bytes."""
    return f"id: {event.n}\n".encode() + shapes.sse(event._asdict(), event.type)


def _is_over(run: Run, last: Event) -> bool:
    """Whether nothing follows an event: a run that ended without telling it, since a function died, tells no more."""
    return last.type in LAST_EVENTS or (run.ended_at is not None and now() - run.ended_at > _LAST_IS_TOLD)


def _next_stands(run_id: RunId, after: int) -> bool:
    """Whether the event behind `after`, which was written, still stands."""
    for attempt in range(_READS):
        if read_events(run_id, after):
            return True
        time.sleep(_SETTLES_S * 2**attempt)
    return False


def _expired(run: Run, after: int) -> Expired:
    return Expired(
        f"The events of run {run.run_id} behind number {after} are kept no longer. "
        f"GET /v1/runs/{run.run_id}/messages has what was said, without end.",
        code="events_expired",
    )
