"""The address of the local stack, which clients are set to: it stays when the stack starts anew."""

from pathlib import Path

import pytest
from rich.console import Console

from local import door_process, stack
from local.door_process import Plan, Running, free_port
from local.model_choice import ModelChoice
from local.stack import Handle

MODEL = ModelChoice("m", "http://localhost:11434/v1")


class Child:
    """A process that was started."""

    pid = 1


@pytest.mark.parametrize(
    ("before", "after"),
    [(Running(1, 45983, "f", "m", 0, 0, tied=False), 45983), (None, door_process.PREFERRED_PORT)],
)
def test_stack_that_starts_anew_asks_for_the_port_it_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: Running | None, after: int
) -> None:
    asked: list[int] = []

    def start(*_: object, door_port: int, **__: object) -> Handle:
        asked.append(door_port)
        return Handle(Running(2, door_port, "g", "m", 0, 0, tied=False), fresh=True)

    monkeypatch.setattr(stack, "find", lambda folder: before)
    monkeypatch.setattr(stack, "_reuse", lambda *_: None)
    monkeypatch.setattr(stack, "_start", start)
    stack.up(tmp_path, MODEL, Console(quiet=True), tied=False)
    assert asked == [after]


def test_front_door_takes_the_port_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(door_process, "_spawn", lambda *_: Child())
    monkeypatch.setattr(door_process, "_wait_ready", lambda *_: None)
    port = free_port(0)
    running, _ = door_process.start(tmp_path, Plan({}, "f", "m", None, 0, tied=False), port)
    assert running.port == port
