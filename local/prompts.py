"""How a person is asked for one value: what every way of asking can do, and the way of plain lines."""

from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console
from rich.text import Text

from local.view import printable
from stepagent.options import Option, match_option

NO_OPTION = "Answer with a number, or with the words of an option."


class NobodyAnswers(RuntimeError):
    """The agent asks, and standard input has no more lines."""


class EditorFailed(RuntimeError):
    """The person's editor did not start; nothing was changed."""


class Prompts(Protocol):
    """Each method returns what the person gave.

    Raises:
        KeyboardInterrupt: the person leaves the question open.
        NobodyAnswers: there is no input left.
    """

    def show(self, text: str, style: str = "") -> None: ...
    def line(self, label: str, default: str = "") -> str: ...
    def pick(self, label: str, options: Sequence[Option], default: str | None = None) -> str: ...
    def pick_some(self, label: str, options: Sequence[Option], default: Sequence[str] = ()) -> list[str]: ...
    def edit(self, text: str) -> str: ...


class LinePrompts:
    """One line of input a value, for pipes and terminals that can do no more. A blank line stands for the default."""

    def __init__(self, console: Console, read_line: Callable[[str], str]) -> None:
        self._console, self._read_line = console, read_line

    def show(self, text: str, style: str = "") -> None:
        show(self._console, text, style)

    def line(self, label: str, default: str = "") -> str:
        return self._ask(label, default).strip() or default

    def pick(self, label: str, options: Sequence[Option], default: str | None = None) -> str:
        """The key of one option."""
        self._list(options)
        shown = default or ""
        while (found := meant(options, self._ask(label, shown).strip() or shown)) is None:
            self.show(NO_OPTION, "red")
        return found.key

    def pick_some(self, label: str, options: Sequence[Option], default: Sequence[str] = ()) -> list[str]:
        """The keys of any number of options, given with commas between them."""
        self._list(options)
        shown = ", ".join(default)
        while True:
            given = self._ask(f"{label}, separated by commas", shown).strip() or shown
            found = [meant(options, part) for part in given.split(",") if part.strip()]
            keys = [option.key for option in found if option]
            if len(keys) == len(found):
                return keys
            self.show(NO_OPTION, "red")

    def edit(self, text: str) -> str:
        return self._ask("the new text, in one line", text).strip() or text

    def _list(self, options: Sequence[Option]) -> None:
        self.show("\n".join(f"  {number}. {in_words(option)}" for number, option in enumerate(options, 1)))

    def _ask(self, label: str, default: str) -> str:
        self.show(f"{label} [{default}]" if default else label)
        try:
            return self._read_line("› ")
        except EOFError:
            raise NobodyAnswers(
                "The agent asks, and standard input has no answer. Ask on a terminal, pipe one line per answer, "
                "or answer later: `make up`, then `make inbox`."
            ) from None


def show(console: Console, text: str, style: str = "") -> None:
    """Prints text that may come from a model: nothing in it is markup, and nothing in it drives the terminal."""
    console.print(Text(printable(text), style=style), soft_wrap=True)


def meant(options: Sequence[Option], given: str) -> Option | None:
    """The option that a person means: by key or words, by its number, or by how only one of them begins."""
    said = given.strip()
    if not said:
        return None
    if found := match_option(options, said):
        return found
    if said.isascii() and said.isdecimal():
        return options[int(said) - 1] if 1 <= int(said) <= len(options) else None
    folded = said.casefold()
    begins = [each for each in options if folded == each.key.casefold()[: len(folded)] or _begins(each.value, folded)]
    return begins[0] if len(begins) == 1 else None


def in_words(option: Option) -> str:
    return printable(" ".join(option.value.split()))


def _begins(words: str, folded: str) -> bool:
    return words.casefold().startswith(folded)
