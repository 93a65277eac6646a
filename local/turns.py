"""Turns of calls that run at the same time: so many processes, and no more, run the functions of the stack."""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 20  # processes: with the emulator they stay under 1 GB
MOST_OF_ONE = 10  # of one function, so that a busy one leaves room to others
_PATIENCE_S = 2.0


class Turns:
    """Lets calls run in the order in which they came, each as soon as there is room for it.

    While calls of several functions wait, each function has its share of the room, and so keeps the processes that it
    has: else every turn would end a process of one function and start one of another.

    Where for two seconds no call came to its end or to its turn, one more than there is room for gets its turn: those
    that run may all wait for others.
    """

    def __init__(self, most: int = MOST, most_of_one: int = MOST_OF_ONE, patience_s: float = _PATIENCE_S) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._patience_s = patience_s
        self._running: Counter[str] = Counter()
        self._waiting: deque[tuple[str, threading.Event]] = deque()
        self._waited_at: dict[str, float] = {}  # when last a call of a function found no room
        self._moved_at = time.monotonic()
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, function: str, *, at_once: bool = False) -> Iterator[None]:
        """Waits for the turn of a call of a function; its room is free again behind the block.

        Args:
            function: whose call it is.
            at_once: its turn is now, whatever room there is.
        """
        came = threading.Event()
        with self._lock:
            self._waiting.append((function, came))
            if at_once:
                self._start(function, came)
            self._admit()
            if not came.is_set():
                self._waited_at[function] = time.monotonic()
        while not came.wait(self._patience_s):
            with self._lock:
                self._admit()
                if time.monotonic() - self._moved_at >= self._patience_s and not came.is_set():
                    self._start(function, came)
        try:
            yield
        finally:
            with self._lock:
                self._running[function] -= 1
                self._moved_at = time.monotonic()
                self._admit()

    def _admit(self) -> None:
        while self._running.total() < self._most and (first := self._first()):
            self._start(*first)

    def _first(self) -> tuple[str, threading.Event] | None:
        """The call whose turn it is, if there is one that may run."""
        lately = time.monotonic() - self._patience_s
        sharing = {name for name, at in self._waited_at.items() if at > lately} | {name for name, _ in self._waiting}
        share = min(self._most_of_one, self._most // max(1, len(sharing)))
        kept = sum(max(0, share - self._running[name]) for name in sharing)  # for calls that are about to come
        has_room = self._running.total() + kept < self._most
        for function, came in self._waiting:
            if self._running[function] < (self._most_of_one if has_room else share):
                return function, came
        return None

    def _start(self, function: str, came: threading.Event) -> None:
        self._waiting.remove((function, came))
        self._running[function] += 1
        self._moved_at = time.monotonic()
        came.set()
