"""A local stack that starts anew says so before it does, and why."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from local import door_process, emulator, release, stack
from local.door_process import Running
from local.model_choice import ModelChoice
from local.stack import Handle, StackBusy

URL = "http://localhost:11434/v1"
OLD, NEW = (ModelChoice(name, URL, label=f"{name} at {URL}") for name in ("old", "new[b]"))


class Machine:
    """What runs on this machine, and what is seen to happen, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, tied: bool = False) -> None:
        self.screen = io.StringIO()
        self.before_the_end = ""
        self.running: Running | None = Running(1, 45983, "as it was", OLD.label, 0, 0, tied=tied)
        self.aws: object = object()
        self.fingerprint = "as it was"
        monkeypatch.setattr(stack, "find", lambda _: self.running)
        monkeypatch.setattr(emulator, "find", lambda _: self.aws)
        monkeypatch.setattr(release, "prepare", lambda *_: SimpleNamespace(fingerprint=self.fingerprint))
        monkeypatch.setattr(door_process, "stop", self._stop)
        monkeypatch.setattr(stack, "_start", lambda *_, **__: Handle(self.running or _running(), fresh=True))

    def _stop(self, _: Path) -> None:
        self.before_the_end = self.screen.getvalue()

    def up(self, folder: Path, choice: ModelChoice = OLD) -> str:
        """What is said of it."""
        stack.up(folder, choice, Console(file=self.screen, width=40), tied=False)
        return self.screen.getvalue()


def _running() -> Running:
    return Running(2, 8090, "", OLD.label, 0, 0, tied=False)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_restart_is_said_before_it_begins_when_the_code_has_changed(machine: Machine, tmp_path: Path) -> None:
    machine.fingerprint = "changed"
    assert machine.up(tmp_path) == "The code or a setting has changed: the stack starts anew.\n"
    assert machine.before_the_end


def test_restart_names_both_models_when_another_one_is_asked_for(machine: Machine, tmp_path: Path) -> None:
    machine.fingerprint = "changed"
    said = f"The model was {OLD.label} and is {NEW.label}: the stack starts anew.\n"
    assert machine.up(tmp_path, NEW) == said
    assert machine.before_the_end


def test_restart_is_said_when_the_emulator_is_gone(machine: Machine, tmp_path: Path) -> None:
    machine.aws = None
    assert machine.up(tmp_path) == "The local AWS has ended: the stack starts anew.\n"
    assert machine.before_the_end


def test_nothing_is_said_when_the_stack_goes_on_as_it_is(machine: Machine, tmp_path: Path) -> None:
    assert machine.up(tmp_path) == ""


def test_nothing_is_said_of_starting_anew_when_nothing_ran(machine: Machine, tmp_path: Path) -> None:
    machine.running = None
    assert machine.up(tmp_path) == ""


def test_nothing_is_said_of_starting_anew_when_a_chat_forbids_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tied=True)
    machine.fingerprint = "changed"
    with pytest.raises(StackBusy):
        machine.up(tmp_path)
    assert machine.screen.getvalue() == ""
