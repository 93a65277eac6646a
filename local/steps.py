"""What a start is doing, in one line: each step with its time, on stderr."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text


@dataclass
class _Step:
    title: str
    started: float
    seconds: float | None = None

    @property
    def text(self) -> Text:
        took = time.monotonic() - self.started if self.seconds is None else self.seconds
        style = "default" if self.seconds is None else "dim"
        return Text(f"{self.title} {took:.1f} s", style=style)


class Steps:
    """Shows steps while they run, also several at once. On a terminal the line stays in place, elsewhere it grows."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps: list[_Step] = []
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._live.stop()
        if self._steps and self._console.is_terminal and kind is None:
            self._console.print(Text("✓ ", style="green") + self._line())

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Count the time of one step; a step that fails is left as it stood."""
        step = _Step(title, time.monotonic())
        self._steps.append(step)
        yield
        step.seconds = time.monotonic() - step.started
        if not self._console.is_terminal:
            print(f"{title} {step.seconds:.1f} s", file=sys.stderr, flush=True)

    def _render(self) -> Spinner:
        self._spinner.update(text=self._line())
        return self._spinner

    def _line(self) -> Text:
        return Text(" · ", style="dim").join(step.text for step in self._steps)
