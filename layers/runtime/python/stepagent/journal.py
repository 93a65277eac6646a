"""The event log of a run: written by one thread in order, numbered without gaps, ended exactly once."""

import itertools
import queue
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from stepagent.runs import RunId
from stepagent.store import journal as table
from stepagent.store.journal import LAST_EVENTS, EventType

BATCH_S = 0.12  # a reader sees text as flowing at eight updates a second
BATCH_CHARS = 1000
_LOSSES_BEFORE_A_LOOK = 5
_SHOWN_CHARS = 2000  # of arguments and results in an event; the record keeps all of them


class _Emitted(NamedTuple):
    type: EventType
    data: Mapping[str, Any]


_CLOSE = _Emitted("usage", {})  # compared by identity: told apart from every event


class Journal:
    """Appends to the journal of one run while the caller goes on; leaving the block waits until all is written.

    Several writers may append at the same time: whoever loses a number takes the next one. After a run's last event
    nothing is written any more.

    Raises:
        Exception: on leaving the block, what the table raised while it was written.
    """

    def __init__(self, run_id: RunId) -> None:
        self._run_id = run_id
        self._queue: queue.SimpleQueue[_Emitted] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._error: Exception | None = None
        self._held: list[_Emitted] = []
        self._written_at = 0.0
        self._tail = -1
        self._ended = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(_CLOSE)
        self._thread.join()
        if self._error and error is None:
            raise self._error

    def emit(self, type_: EventType, **data: Any) -> None:
        self._queue.put(_Emitted(type_, data))

    def text(self, fragment: str) -> None:
        """A piece of visible text; pieces are joined for a moment, so that each does not cost a request."""
        self._pieces("text", fragment)

    def reasoning(self, fragment: str) -> None:
        self._pieces("reasoning", fragment)

    def _pieces(self, kind: str, fragment: str) -> None:
        for start in range(0, len(fragment), BATCH_CHARS):
            self.emit("message.delta", **{kind: fragment[start : start + BATCH_CHARS]})

    def _work(self) -> None:
        try:
            while (event := self._take(None)) is not _CLOSE:
                self._append(self._join(event) if event.type == "message.delta" else event)
                self._written_at = time.monotonic()
        except Exception as error:
            self._error = error

    def _take(self, timeout_s: float | None) -> _Emitted:
        return self._held.pop() if self._held else self._queue.get(timeout=timeout_s)

    def _join(self, delta: _Emitted) -> _Emitted:
        """One delta made of those of its kind that come before the next write is due."""
        (kind, text), *_ = delta.data.items()
        while len(text) < BATCH_CHARS and (left := self._written_at + BATCH_S - time.monotonic()) > 0:
            try:
                following = self._take(left)
            except queue.Empty:
                break
            if following.type != "message.delta" or kind not in following.data:
                self._held.append(following)
                break
            text += following.data[kind]
        return _Emitted("message.delta", {kind: text})

    def _append(self, event: _Emitted) -> None:
        if self._tail < 0:
            self._find_tail()
        for lost in itertools.count(1):
            if self._ended:
                return
            standing = table.put_event(self._run_id, self._tail + 1, event.type, event.data)
            self._tail += 1
            self._ended = (standing or event).type in LAST_EVENTS
            if standing is None:
                return
            # Writers that began together lose to one another by single numbers; one that fell behind looks again.
            if lost % _LOSSES_BEFORE_A_LOOK == 0:
                self._find_tail()

    def _find_tail(self) -> None:
        last = table.last_event(self._run_id)
        self._tail = last.n if last else 0
        self._ended = last is not None and last.type in LAST_EVENTS


def shown(text: str) -> str:
    """Text as an event shows it: whole, or its beginning with a note of how much there is."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
