"""Asking for one value: with keys on a terminal, and by plain lines."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from local.prompts import EditorFailed, LinePrompts, NobodyAnswers, meant, show
from local.terminal_prompts import TerminalPrompts
from stepagent.options import Option

UP, DOWN, ENTER, CTRL_C, CTRL_D, CTRL_U = "\x1b[A", "\x1b[B", "\r", "\x03", "\x04", "\x15"
COLOURS = tuple(Option(key=value[0], value=value) for value in ("blue", "dark red", "dark green"))
DAYS = (Option(key="2", value="2"), Option(key="5", value="5"))


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    """What the person types."""
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        yield typed


@pytest.fixture
def terminal() -> TerminalPrompts:
    return TerminalPrompts(Console(file=io.StringIO()))


def lines(*given: str) -> LinePrompts:
    left = iter(given)

    def read_line(prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return LinePrompts(Console(file=io.StringIO()), read_line)


# ---- what is meant


@pytest.mark.parametrize(
    ("given", "key"),
    [
        *(("b", "b"), ("dark red", "d"), ("DARK RED", "d"), ("1", "b"), ("3", "x"), ("blu", "b"), ("dark r", "d")),
        *(("dark", None), ("dark green", None), ("4", None), ("0", None), ("", None), (" ", None), ("no", None)),
    ],
)
def test_option_is_the_one_that_a_person_means(given: str, key: str | None) -> None:
    options = (*COLOURS[:2], Option(key="x", value="dark blue"))
    found = meant(options, given)
    assert (found.key if found else None) == key


def test_number_is_taken_for_the_option_of_that_name_first() -> None:
    assert meant(DAYS, "2") == DAYS[0]


# ---- on a terminal


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        (DOWN + ENTER, "b"),
        (DOWN * 2 + ENTER, "d"),
        (UP + ENTER, "x"),
        (DOWN * 3 + DOWN + ENTER, "b"),
        ("2" + ENTER, "d"),
        ("dark red" + ENTER, "d"),
        ("1" + DOWN + ENTER, "d"),
        ("purple" + ENTER + DOWN + ENTER, "b"),
        (ENTER + "x" + ENTER, "x"),
    ],
)
def test_option_is_picked_by_arrow_keys_number_or_words(
    keys: PipeInput, terminal: TerminalPrompts, typed: str, key: str
) -> None:
    keys.send_text(typed)
    options = (*COLOURS[:2], Option(key="x", value="dark blue"))
    assert terminal.pick("which", options) == key


def test_arrow_keys_reach_options_whose_words_are_numbers(keys: PipeInput, terminal: TerminalPrompts) -> None:
    keys.send_text(DOWN * 2 + ENTER)
    assert terminal.pick("days", DAYS) == "5"


def test_enter_alone_picks_the_default(keys: PipeInput, terminal: TerminalPrompts) -> None:
    keys.send_text(ENTER)
    assert terminal.pick("which", COLOURS, "d") == "d"


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        (ENTER, ["d"]),
        (" " + ENTER, ["b", "d"]),
        (DOWN + " " + ENTER, []),
        ("1 " + DOWN + " " + ENTER, ["b"]),
        ("1" + ENTER + CTRL_U + ENTER, ["d"]),
    ],
)
def test_space_marks_the_option_at_the_pointer(
    keys: PipeInput, terminal: TerminalPrompts, typed: str, chosen: list[str]
) -> None:
    keys.send_text(typed)
    assert terminal.pick_some("which", COLOURS[:2], ["d"]) == chosen


def test_line_begins_with_the_default(keys: PipeInput, terminal: TerminalPrompts) -> None:
    keys.send_text(" Lovelace " + ENTER)
    assert terminal.line("name", "Ada") == "Ada Lovelace"


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_question_is_left_open_by_ctrl_c_and_ctrl_d(keys: PipeInput, terminal: TerminalPrompts, key: str) -> None:
    keys.send_text(key)
    with pytest.raises(KeyboardInterrupt):
        terminal.pick("which", COLOURS)


def test_text_is_edited_in_the_persons_editor(
    terminal: TerminalPrompts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\necho "edited $(cat "$2")" > "$2"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", f"'{editor}' --wait")
    assert terminal.edit("text") == "edited text\n"


def test_editor_that_is_not_there_is_named(terminal: TerminalPrompts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor")
    with pytest.raises(EditorFailed, match="no-such-editor could not be started"):
        terminal.edit("text")


def test_text_is_edited_in_place_when_no_editor_is_named(
    keys: PipeInput, terminal: TerminalPrompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    keys.send_text("!" + ENTER + "more\x1b\r")
    assert terminal.edit("text") == "text!\nmore"


# ---- by lines


def test_line_is_the_default_when_it_is_blank() -> None:
    assert (lines("  ").line("name", "Ada"), lines(" Bob ").line("name", "Ada")) == ("Ada", "Bob")


def test_line_is_asked_for_again_when_it_is_no_option() -> None:
    assert lines("", "purple", "2").pick("which", COLOURS[:2]) == "d"


@pytest.mark.parametrize(
    ("given", "chosen"),
    [(["1, dark red"], ["b", "d"]), ([""], ["d"]), (["1, purple", "1"], ["b"])],
)
def test_options_are_given_with_commas_between_them(given: list[str], chosen: list[str]) -> None:
    assert lines(*given).pick_some("which", COLOURS[:2], ["d"]) == chosen


def test_nobody_answers_when_the_input_ends() -> None:
    with pytest.raises(NobodyAnswers, match="one line per answer"):
        lines().pick("which", COLOURS)


def test_text_of_a_model_neither_is_markup_nor_drives_the_terminal() -> None:
    shown = io.StringIO()
    show(Console(file=shown), "[red]\x1b[2J\x07plain")
    assert shown.getvalue() == "[red][2Jplain\n"
