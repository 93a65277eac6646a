"""Prompts with arrow keys, on a terminal."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from rich.console import Console

from local.prompts import NO_OPTION, EditorFailed, in_words, meant, show
from local.view import printable
from stepagent.options import Option

_MAX_LISTED = 12  # options at once; the list moves with the pointer


class TerminalPrompts:
    """Asks with prompt_toolkit. Ctrl-C and Ctrl-D raise `KeyboardInterrupt`: the question stays open."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, text: str, style: str = "") -> None:
        show(self._console, text, style)

    def line(self, label: str, default: str = "") -> str:
        return _ask(PromptSession(_label(label)), default).strip()

    def pick(self, label: str, options: Sequence[Option], default: str | None = None) -> str:
        """The key of one option, chosen with the arrow keys, by its number or by its words."""
        menu = _Menu(label, options)
        at = next((index for index, option in enumerate(options) if option.key == default), None)
        while True:
            found = menu.meant(_ask(menu.session(), "" if at is None else menu.words(at)))
            if found is not None:
                return options[found].key
            self.show(NO_OPTION, "red")

    def pick_some(self, label: str, options: Sequence[Option], default: Sequence[str] = ()) -> list[str]:
        """The keys of any number of options: space marks the one that the pointer is at."""
        menu = _MarkingMenu(f"{label}, space marks", options, {option.key for option in options} & set(default))
        while _ask(menu.session(), "").strip():
            self.show("Space marks an option, Enter ends.", "red")
        return [option.key for option in options if option.key in menu.chosen]

    def edit(self, text: str) -> str:
        """The text as the person changed it, in their editor if they named one."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if editor:
            return _edit_in(shlex.split(editor), text)
        self.show("Alt+Enter, or Esc and then Enter, ends. With EDITOR set this opens there.", "dim")
        return _ask(PromptSession(_label("edit"), multiline=True), text)


class _Menu:
    """Options above a line of input. The pointer is at the option that the line means; arrow keys write its words."""

    def __init__(self, label: str, options: Sequence[Option]) -> None:
        self._label, self._options = label, options

    def meant(self, text: str) -> int | None:
        found = meant(self._options, text)
        return None if found is None else list(self._options).index(found)

    def words(self, at: int) -> str:
        """A line that means this option: its words, or its key where another one is known by those."""
        words = in_words(self._options[at])
        return words if self.meant(words) == at else self._options[at].key

    def session(self) -> PromptSession[str]:
        return PromptSession(self._message, key_bindings=self._keys())

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add(Keys.Up, eager=True)(lambda event: self._move(event.current_buffer, -1))
        keys.add(Keys.Down, eager=True)(lambda event: self._move(event.current_buffer, 1))
        return keys

    def _move(self, line: Buffer, step: int) -> None:
        at = self._pointer(line.text)
        line.document = Document(self.words(self._next(at, step)))

    def _next(self, at: int | None, step: int) -> int:
        return ((0 if step > 0 else -1) if at is None else at + step) % len(self._options)

    def _pointer(self, text: str) -> int | None:
        return self.meant(text)

    def _message(self) -> StyleAndTextTuples:
        at = self._pointer(get_app().current_buffer.text)
        first = max(0, min((at or 0) - _MAX_LISTED // 2, len(self._options) - _MAX_LISTED))
        shown = list(enumerate(self._options))[first : first + _MAX_LISTED]
        lines = [self._line(index, option, pointed=index == at) for index, option in shown]
        left = len(self._options) - len(shown)
        more: StyleAndTextTuples = [("fg:ansibrightblack", f"    … {left} more\n")] if left else []
        return [*lines, *more, *_label(self._label)]

    def _line(self, index: int, option: Option, *, pointed: bool) -> tuple[str, str]:
        text = f"  {'❯' if pointed else ' '} {self._mark(option)}{index + 1}. {in_words(option)}\n"
        return ("fg:ansicyan" if pointed else "", text)

    def _mark(self, option: Option) -> str:
        return ""


class _MarkingMenu(_Menu):
    """Options of which any number are chosen. The line stays empty; what is typed there moves the pointer."""

    def __init__(self, label: str, options: Sequence[Option], chosen: set[str]) -> None:
        super().__init__(label, options)
        self.chosen, self._at = chosen, 0

    def _keys(self) -> KeyBindings:
        keys = super()._keys()
        keys.add(" ", eager=True)(lambda event: self._toggle(event.current_buffer))
        return keys

    def _pointer(self, text: str) -> int:
        found = self.meant(text)
        return self._at if found is None else found

    def _move(self, line: Buffer, step: int) -> None:
        self._at = self._next(self._pointer(line.text), step)
        line.reset()

    def _toggle(self, line: Buffer) -> None:
        self._at = self._pointer(line.text)
        self.chosen ^= {self._options[self._at].key}
        line.reset()

    def _mark(self, option: Option) -> str:
        return "[x] " if option.key in self.chosen else "[ ] "


def _label(label: str) -> StyleAndTextTuples:
    return [("bold", printable(label)), ("", " › ")]


def _ask(session: PromptSession[str], default: str) -> str:
    try:
        return session.prompt(default=default)
    except EOFError:
        raise KeyboardInterrupt from None


def _edit_in(editor: list[str], text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arguments.json"
        file.write_text(text)
        try:
            subprocess.run([*editor, str(file)], check=False)
        except OSError as error:
            raise EditorFailed(f"{editor[0]} could not be started ({error.strerror}).") from error
        return file.read_text()
