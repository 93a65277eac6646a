"""The terminal while a command works: what is typed stays unseen and unread, Ctrl-C is heard without breaking off,
and nobody need read what is told of progress.
"""

import io
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Heedless(io.FileIO):
    """A file that takes everything: what cannot be written is dropped."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data) or len(memoryview(data))
        except OSError:
            return len(memoryview(data))


def drop_unread_stderr() -> None:
    """Has all that is printed on stderr succeed, so that a reader who goes away ends no command and nothing it started.

    Nothing stays in a buffer either, where it would fail once more at the exit.
    """
    if not sys.stderr:  # closed from the start, and then nothing is written
        return
    unheeded = io.BufferedWriter(_Heedless(sys.stderr.fileno(), "w", closefd=False))
    sys.stderr = io.TextIOWrapper(unheeded, sys.stderr.encoding, "backslashreplace", line_buffering=True)


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
