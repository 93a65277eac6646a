"""A run on a terminal: what is finished scrolls up, and only the last paragraph and the spinner move."""

import threading
import time
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.text import Text

from local.checklist import Checklist
from local.plan_news import StepNews
from local.view import Closing, printable, shortened
from stepagent.planning.plan import Plan

_TICK_S = 0.1


class _Paragraph:
    """Markdown below one blank line; rich puts others around lists and code."""

    def __init__(self, text: str) -> None:
        self._markdown = Markdown(text.strip("\n"), code_theme="ansi_dark")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._markdown, options, pad=False)
        written = [index for index, line in enumerate(lines) if "".join(part.text for part in line).strip()]
        for line in [[], *lines[min(written, default=0) : max(written, default=-1) + 1]]:
            yield Segments(line)
            yield Segment.line()


class LiveView:
    """Prints each piece once, when it is finished; before that it is part of the live lines at the end."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells the seconds that are shown, which in a replay are others than those that pass."""
        self._console, self._clock = console, clock
        self._spinner = Spinner("dots", style="cyan")
        self._lock = threading.Lock()  # rich's own thread would write between the measuring and the writing of ours
        self._doing, self._since = "thinking", self._clock()
        self._open: dict[str, tuple[str, float]] = {}  # names of the tools that run, with their begin, by call
        self._turn, self._paragraph, self._thought = "", "", ""
        self._checklist, self._checked = Checklist(clock), False  # whether it is among the live lines

    def begin(self) -> None:
        self._doing_now("" if self._checked and self._checklist.has_begun else "thinking")
        self._live = Live(
            get_renderable=self._render,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stderr=False,
        )
        self._live.start()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, args=(self._live, self._ended), daemon=True)
        self._ticker.start()

    def turn(self, name: str) -> None:
        self._finish_paragraph()
        self._turn = name
        self._doing_now("thinking")

    def reasoning(self, text: str) -> None:
        self._thought += printable(text)

    def text(self, text: str) -> None:
        self._announce_turn()
        self._finish_checklist()
        self._doing = ""
        self._paragraph += printable(text)
        while (end := _paragraph_end(self._paragraph)) is not None:
            whole, self._paragraph = self._paragraph[:end], self._paragraph[end:].lstrip("\n")
            self._print_paragraph(whole)

    def called(self, call_id: str, tool: str, arguments: str) -> None:
        self._finish_paragraph()
        self._announce_turn()
        self._print_line(("  → ", "cyan"), (tool, "bold"), f"({arguments})")
        self._open[call_id] = (tool, self._clock())
        self._doing_now(tool)

    def returned(self, call_id: str, tool: str, result: str, *, is_error: bool) -> None:
        mark, style = ("✗", "red") if is_error else ("✓", "green")
        _, since = self._open.pop(call_id, ("", None))
        took = "" if since is None else f" · {self._clock() - since:.1f} s"
        self._print_line((f"  {mark} {tool}", style), (took, "dim"), (f": {result}", style))
        self._doing_now(next((name for name, _ in reversed(self._open.values())), "thinking"))

    def plan(self, plan: Plan, change: str | None) -> None:
        self._finish_paragraph()
        self._announce_turn()
        if change is not None:
            self._print_line((f"  plan changed: {shortened(change)}", "yellow"))
        self._with_checklist(lambda: self._checklist.show(plan))

    def step(self, news: StepNews) -> None:
        self._with_checklist(lambda: self._checklist.hear(news))

    def note(self, text: str) -> None:
        self._print_line((text, "yellow"))

    def end(self, closing: Closing | None) -> None:
        self._finish_paragraph()
        self._announce_turn()  # of a turn that did nothing but ask
        if closing is None or closing.status != "waiting":  # a plan that waits goes on, or its question shows it
            self._finish_checklist(ended=closing is not None)
        self._ended.set()
        self._ticker.join()
        self._live.stop()
        if closing and closing.failure:
            self._console.print(Text(f"✗ {closing.failure}", style="red"))
        if closing and closing.status != "waiting":
            self._console.print(Text(f"\n{closing.line}", style="dim"))

    def _with_checklist(self, change: Callable[[], None]) -> None:
        with self._lock:
            change()
            self._checked = True
        self._doing = ""

    def _finish_checklist(self, *, ended: bool = True) -> None:
        """What stays of the plan on the screen, above the answer."""
        if self._checked:
            lines = list(self._checklist.lines(ended=ended))
            self._checked = False
            for line in lines:
                self._print_line(line)

    def _doing_now(self, what: str) -> None:
        self._doing, self._since = what, self._clock()

    def _announce_turn(self) -> None:
        """One line for the turn, once it is known how long the model thought."""
        if not self._turn:
            return
        took = f"{self._turn} · {self._clock() - self._since:.1f} s"
        self._turn = ""
        self._print_line((took, "dim"))
        if thought := self._thought.strip():
            self._thought = ""
            self._print(Padding(Text(thought, style="dim italic"), (0, 2)))

    def _finish_paragraph(self) -> None:
        whole, self._paragraph = self._paragraph, ""
        if whole.strip():
            self._print_paragraph(whole)

    def _print_paragraph(self, text: str) -> None:
        self._print(_Paragraph(text))

    def _print_line(self, *parts: str | tuple[str, str] | Text) -> None:
        with self._lock:
            self._console.print(Text.assemble(*parts), no_wrap=True, overflow="ellipsis")

    def _print(self, what: Padding | _Paragraph) -> None:
        with self._lock:
            self._console.print(what)

    def _tick(self, live: Live, ended: threading.Event) -> None:
        while not ended.wait(_TICK_S):
            with self._lock:
                live.refresh()

    def _render(self) -> Group:
        parts: list[Text | _Paragraph | Spinner] = []
        if self._checked:
            parts += self._live_lines()
        if self._thought:
            parts.append(Text(_last_line(self._thought), style="dim italic", no_wrap=True, overflow="ellipsis"))
        if self._paragraph.strip():
            parts.append(_Paragraph(self._paragraph))
        if self._doing:
            self._spinner.update(text=Text(f"{self._doing} … {self._clock() - self._since:.0f} s", style="dim"))
            parts.append(self._spinner)
        return Group(*parts)

    def _live_lines(self) -> list[Text]:
        lines = list(self._checklist.lines())
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return lines


def _paragraph_end(text: str) -> int | None:
    """Where the first finished paragraph ends; a block of code is one, blank lines and all."""
    end = text.find("\n\n", len(text) - len(text.lstrip("\n")))
    while end != -1 and text.count("```", 0, end) % 2:
        end = text.find("\n\n", end + 1)
    return None if end == -1 else end


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
