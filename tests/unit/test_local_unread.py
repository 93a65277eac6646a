"""A command whose reader goes away goes on: what it cannot say on stderr ends nothing that it started."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from rich.console import Console

from local import chat, cli, stack
from local.door_process import Running
from local.model_choice import ModelChoice
from local.stack import Handle
from local.steps import Steps
from local.terminal import drop_unread_stderr

Opened = Callable[[], TextIO]


def without_reader() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w", buffering=1)


def without_space() -> TextIO:
    return Path("/dev/full").open("w", buffering=1)


@pytest.fixture(params=[without_reader, without_space])
def unwritable(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    """An open file that takes nothing."""
    opened: Opened = request.param
    with opened() as file:
        yield file


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """What was stopped, on a machine where everything starts that is asked for, and tells its steps."""
    folders: list[Path] = []

    def start(folder: Path, choice: ModelChoice, steps: Steps, *, tied: bool, door_port: int) -> Handle:
        for title in ("AWS emulator", "deploy"):
            with steps.step(title):
                pass
        return Handle(Running(1, door_port, "f", "m", 0, 0, tied=tied), fresh=True)

    monkeypatch.setattr(stack, "find", lambda folder: None)
    monkeypatch.setattr(stack, "_start", start)
    monkeypatch.setattr(stack, "down", folders.append)
    monkeypatch.setattr("local.model_choice.choose", lambda _: ModelChoice("m", "http://127.0.0.1:9/v1", label="m"))
    monkeypatch.setenv("STEPAGENT_HOME", str(tmp_path))
    return folders


def exit_code(monkeypatch: pytest.MonkeyPatch, stderr: TextIO, *words: str) -> int | str | None:
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "argv", ["cli", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code


def test_stack_stays_up_when_nobody_reads_how_it_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stopped: list[Path], unwritable: TextIO
) -> None:
    assert exit_code(monkeypatch, unwritable, "up") == 0
    assert stopped == []
    assert capsys.readouterr().out.startswith("Up.\n")


def test_chat_answers_before_it_stops_its_stack_when_nobody_reads_how_that_starts(
    monkeypatch: pytest.MonkeyPatch, stopped: list[Path], unwritable: TextIO
) -> None:
    asked: list[tuple[str, int]] = []

    def ask(_: chat.Chat, question: str) -> int:
        asked.append((question, len(stopped)))
        return 0

    monkeypatch.setattr(chat.Chat, "ask", ask)
    assert exit_code(monkeypatch, unwritable, "chat", "What is 17*23?") == 0
    assert (asked, len(stopped)) == ([("What is 17*23?", 0)], 1)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_everything_that_is_shown_on_stderr_goes_nowhere_when_nobody_reads_it(
    monkeypatch: pytest.MonkeyPatch, unwritable: TextIO, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", unwritable)
    drop_unread_stderr()
    console = Console(stderr=True, force_terminal=is_terminal)
    with Steps(console) as steps, steps.step("deploy"):
        console.print("shown")
        print("plain", file=sys.stderr, flush=True)
    sys.stderr.flush()  # as at the exit, where a failure would become the exit code


def test_stderr_is_as_it_was_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader) as read, os.fdopen(writer, "w", encoding="ascii", errors="backslashreplace") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        drop_unread_stderr()
        print("né", file=sys.stderr)
        assert read.readline() == "n\\xe9\n"
        assert (sys.stderr.encoding, sys.stderr.isatty(), sys.stderr.fileno()) == ("ascii", False, writer)


def test_stderr_stays_closed_when_it_was_never_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    drop_unread_stderr()
    assert sys.stderr is None
