"""The terminal while a run works: what is typed stays unseen and unread, and Ctrl-C is heard without breaking off."""

import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def unechoed() -> Iterator[None]:
    """Keeps typed characters out of the picture, and from answering a question that nobody has read yet."""
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = termios.tcgetattr(terminal)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)  # drops what was typed meanwhile


@contextmanager
def first_interrupt(react: Callable[[], None]) -> Iterator[None]:
    """Calls `react` on the first Ctrl-C in place of breaking off; the second one raises `KeyboardInterrupt` as ever.

    `react` runs between any two steps of the main thread, so it must take no lock.
    """

    def once(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler)
        react()

    before = signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
