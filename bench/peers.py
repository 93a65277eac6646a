"""Peers as systems to measure: each a process of its own, with a folder of its own for what it keeps."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.model import ANSWER
from bench.spans import Span

_ROOT = Path(__file__).resolve().parent.parent
PYTHON = _ROOT / ".local/peers/bin/python"
KEPT = {
    "openai-agents": "the items of a conversation, in SQLite (SQLiteSession); a run that was cut off is not resumed",
    "langgraph": "a checkpoint of the state after each step, in SQLite (SqliteSaver); another process can go on",
    "pydantic-ai": "the messages, in a JSON file when a question is answered; a run that was cut off is lost",
}


class Peer:
    """A library in one process, which holds the conversation, calls the model and runs the tool."""

    def __init__(self, name: str, base_url: str, folder: Path) -> None:
        self.name, self.kept = name, KEPT[name]
        self._log = folder / "stderr"
        module = f"bench.peer.{name.replace('-', '_')}_loop"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [PYTHON, "-m", module],
                cwd=folder,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(folder),
                    "PYTHONPATH": str(_ROOT),
                    "OPENAI_BASE_URL": base_url,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, session: str, question: str) -> Span:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([session, question]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: {self._log.read_text()[-1000:]}")
        began, ended, answer = json.loads(line)
        if not answer.endswith(ANSWER):
            raise RuntimeError(f"{self.name} answered {answer[:200]!r}")
        return Span(began, ended)


@contextmanager
def peers(base_url: str) -> Iterator[list[Peer]]:
    """All peers, started; they end with the block."""
    if not PYTHON.exists():
        raise FileNotFoundError(f"There is no {PYTHON}: `make bench` installs bench/requirements.txt there.")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started = []
        for name in KEPT:
            (folder / name).mkdir()
            started.append(Peer(name, base_url, folder / name))
            stack.enter_context(started[-1].process)  # waits for its end, behind the line that brings it about
        stack.callback(lambda: [peer.process.stdin and peer.process.stdin.close() for peer in started])
        yield started
