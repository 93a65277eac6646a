"""The event log of a run: written by one thread in order, numbered without gaps, ended exactly once."""

import itertools
import math
import queue
import threading
import time
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from stepagent.clock import now
from stepagent.runs import RunId
from stepagent.store import journal as table
from stepagent.store.journal import LAST_EVENTS, MAX_APPENDED, Entry, EventType, Position

BATCH_S = 0.12  # a reader sees text as flowing at eight updates a second
BATCH_CHARS = 1000
HOLD_S = 0.02  # a tool that is done this soon costs one request for its start and its end
_SHOWN_CHARS = 2000  # of arguments and results in an event; the record keeps all of them


class Journal:
    """Appends to the journal of one run while the caller goes on; leaving the block waits until all is written.

    Several writers may append at the same time. After a run's last event nothing is written any more.

    Raises:
        Exception: on leaving the block, what the table raised while it was written.
    """

    def __init__(self, run_id: RunId) -> None:
        self._run_id = run_id
        self._keys = (f"{uuid.uuid4().hex[:12]}-{number}" for number in itertools.count(1))
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()  # None: there will be no more
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._error: Exception | None = None
        self._written_at = 0.0
        self._position = Position(1, ended=False)
        self._open = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._thread.join()
        if self._error and error is None:
            raise self._error

    def emit(self, type_: EventType, **data: Any) -> None:
        self._queue.put(Entry(next(self._keys), type_, now(), data))

    def text(self, fragment: str) -> None:
        """A piece of visible text; pieces are joined for a moment, so that each does not cost a request."""
        self._pieces("text", fragment)

    def reasoning(self, fragment: str) -> None:
        self._pieces("reasoning", fragment)

    def refusal(self, fragment: str) -> None:
        """A piece of what is said in place of an answer."""
        self._pieces("refusal", fragment)

    def _pieces(self, kind: str, fragment: str) -> None:
        for start in range(0, len(fragment), BATCH_CHARS):
            self.emit("message.delta", **{kind: fragment[start : start + BATCH_CHARS]})

    def _work(self) -> None:
        try:
            self._position = table.find_position(self._run_id)  # while the first events wait for others
            while entries := self._gather():
                self._append(entries)
                self._written_at = time.monotonic()
        except Exception as error:
            self._error = error

    def _gather(self) -> list[Entry]:
        """What the next request takes: what is there, and what comes while all of it may wait; nothing at the end."""
        entries: list[Entry] = []
        due = math.inf
        while self._open and len(entries) < MAX_APPENDED:
            try:
                entry = self._queue.get(timeout=max(0, due - time.monotonic()) if entries else None)
            except queue.Empty:
                break
            if entry is None:
                self._open = False
            else:
                _join(entries, entry)
                due = min(due, self._due(entries[-1]))
        return entries

    def _due(self, entry: Entry) -> float:
        """When an event must be written, even if it is alone."""
        match entry.type:
            case "message.delta" if _length(entry) < BATCH_CHARS:
                return self._written_at + BATCH_S
            case "tool.started":
                return time.monotonic() + HOLD_S
            case _:
                return 0

    def _append(self, entries: Sequence[Entry]) -> None:
        last = next((number for number, entry in enumerate(entries, 1) if entry.type in LAST_EVENTS), None)
        while not self._position.ended:
            elsewhere = table.append(self._run_id, self._position.page, entries[:last])
            if elsewhere is None:
                self._position = self._position._replace(ended=last is not None)
                break
            self._position = elsewhere


def _join(entries: list[Entry], entry: Entry) -> None:
    """Adds an event; a piece of text is added to the piece before it, while that is short and of its kind."""
    match entries:
        case [*_, Entry(type="message.delta", data=before)] if (
            entry.type == "message.delta" and before.keys() == entry.data.keys() and _length(entries[-1]) < BATCH_CHARS
        ):
            joined = {kind: text + entry.data[kind] for kind, text in before.items()}
            entries[-1] = entries[-1]._replace(data=joined)
        case _:
            entries.append(entry)


def _length(delta: Entry) -> int:
    return sum(map(len, delta.data.values()))


def shown(text: str) -> str:
    """Text as an event shows it: whole, or its beginning with a note of how much there is."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
