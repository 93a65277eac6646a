"""A batch from the command line: its file, what the screen says, and how the command ends."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from local import batch_commands, batch_files, batch_on_screen, stack
from local.api_client import ApiClient
from local.batch_files import FileUnusable, beside, read_input_file, write_lines
from local.cli import app
from local.door_process import Running
from local.stack import Handle

Batch = dict[str, Any]


def a_batch(status: str = "running", total: int | None = 3, good: int = 0, bad: int = 0) -> Batch:
    left = 0 if total is None else total - good - bad
    counts = {"total": total, "pending": 0, "running": left, "succeeded": good, "failed": bad}
    ended = None if status == "running" else "2030-01-01T00:00:00Z"
    return {"batch_id": "b1", "status": status, "counts": counts, "failure": None, "ended_at": ended}


class Api(ApiClient):
    """Stands for the API: a batch that comes to these standings, one after the other."""

    standings: tuple[Batch, ...] = ()
    interrupt = False

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self.left = iter(self.standings)
        self.begun: list[Batch] = []

    def begin_batch(self, body: Batch) -> Batch:
        self.begun.append(body)
        type(self).asked = body  # type: ignore[attr-defined]
        return a_batch()

    def read_batch(self, batch_id: str) -> Batch:
        if self.interrupt:
            raise KeyboardInterrupt
        return next(self.left)

    def batch_results(self, batch_id: str, kind: str) -> Iterator[Batch]:
        count = self.standings[-1]["counts"][kind]
        return ({"input_id": str(number), "answer": "ü"} for number in range(count))


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "my questions.jsonl"
    path.write_text('{"input": "one"}\n')
    return path


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> type[Api]:
    """The commands with `Api` in place of the API, and nothing started."""

    class Fresh(Api):
        pass

    running = Running(pid=1, port=1, fingerprint="", model="scripted", model_port=0, model_pid=0, tied=False)
    monkeypatch.setattr("local.api_client.ApiClient", Fresh)
    monkeypatch.setattr(stack, "up", lambda *_, **__: Handle(running, fresh=False))
    monkeypatch.setattr(stack, "find", lambda folder: running)
    monkeypatch.setattr(batch_files, "upload", lambda file: f"batches/inputs/local/{file.name}.jsonl")
    monkeypatch.setattr(batch_on_screen, "_POLL_S", 0)
    return Fresh


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["batch", *words])


def test_results_stand_beside_the_file_when_every_input_has_its_answer(api: type[Api], questions: Path) -> None:
    api.standings = (a_batch(total=None), a_batch(good=1), a_batch("completed", good=3))
    done = invoke("run", str(questions))
    assert done.exit_code == 0, done.output
    results = questions.with_name("my questions.results.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in results] == ["ü"] * 3
    assert questions.with_name("my questions.failures.jsonl").read_text() == ""
    assert "3 of 3 inputs succeeded, 0 failed" in done.output


def test_command_fails_when_an_input_did(api: type[Api], questions: Path) -> None:
    api.standings = (a_batch("completed", good=2, bad=1),)
    assert invoke("run", str(questions)).exit_code == 1


def test_interrupted_command_leaves_the_batch_and_says_how_to_go_on(api: type[Api], questions: Path) -> None:
    api.interrupt = True
    done = invoke("run", str(questions))
    assert done.exit_code == 130
    assert ".local/venv/bin/python -m local.cli batch status b1" in done.output.replace("\n", " ")


def test_same_file_is_the_same_batch_and_another_content_is_another(api: type[Api], questions: Path) -> None:
    asked = []
    for content in ("one", "one", "two"):
        questions.write_text(content)
        api.standings = (a_batch("completed", good=3),)
        invoke("run", str(questions), "--agent", "helper")
        asked.append(api.asked["batch_id"])  # type: ignore[attr-defined]
    assert asked[0] == asked[1] != asked[2]
    assert asked[0].startswith("my-questions-")


def test_file_that_is_not_there_is_a_sentence(api: type[Api], tmp_path: Path) -> None:
    done = invoke("run", str(tmp_path / "none.jsonl"))
    assert done.exit_code == 1
    assert "cannot be read" in done.output


def test_command_asks_which_file_when_none_is_named(api: type[Api]) -> None:
    done = invoke("run", "")
    assert (done.exit_code, "make batch FILE=questions.jsonl" in done.output) == (1, True)


def test_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("\n")
    with pytest.raises(FileUnusable, match="empty"):
        read_input_file(path)


@pytest.mark.parametrize(
    ("batch", "code"),
    [(a_batch(), 0), (a_batch("completed", good=3), 0), (a_batch("completed", bad=3), 1), (a_batch("failed"), 1)],
)
def test_status_tells_by_its_exit_code_whether_something_failed(api: type[Api], batch: Batch, code: int) -> None:
    api.standings = (batch,)
    assert invoke("status", "b1").exit_code == code


def test_progress_is_shown_on_a_terminal() -> None:
    standings = iter([a_batch(total=None), a_batch(good=1, bad=1), a_batch("completed", good=2, bad=1)])
    screen, slept = StringIO(), list[float]()
    ended = batch_on_screen.follow(
        lambda: next(standings), Console(force_terminal=True, no_color=True, width=160, file=screen), slept.append
    )
    assert (ended["status"], len(slept)) == ("completed", 2)
    assert "3/3" in screen.getvalue()
    assert "1 failed" in screen.getvalue()


def test_lines_are_written_all_or_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Batch]:
        yield {"n": 1}
        raise RuntimeError

    path = beside(tmp_path / "x.csv", "results")
    assert write_lines(path, [{"n": 0}]) == 1
    with pytest.raises(RuntimeError):
        write_lines(path, broken())
    assert (path.name, path.read_text()) == ("x.results.jsonl", '{"n": 0}\n')


def test_commands_are_those_that_the_screen_names() -> None:
    names = {command.callback.__name__ for command in batch_commands.app.registered_commands if command.callback}
    assert names == {"run", "status", "results", "cancel"}
