"""A script in a forked process, beside the same script as a program: whoever starts it sees no difference."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from local.fork_server import ForkServer, is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="functions are programs here")

STATE = """
import json, os, sys, time
print(json.dumps({
    "environment": dict(os.environ), "folder": os.getcwd(), "arguments": sys.argv, "path": sys.path,
    "name": __name__, "file": __file__, "main": sys.modules["__main__"].__dict__ is globals(),
    "local": [name for name in sys.modules if name.partition(".")[0] in ("local", "preloaded", "fork_server")],
    "standard input": sys.stdin.read(), "open files": len(os.listdir("/proc/self/fd")), "zone": time.tzname[0],
}))
"""


SURROUNDINGS = {"NAME": "value", "TZ": "UTC-5", "HOME": "/nowhere", "LC_ALL": "C.UTF-8"}


class Process(Protocol):
    """What the emulator asks of the process of a function."""

    stdout: Any
    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Start = Callable[..., Process]


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    running = ForkServer()
    yield running
    running.stop()


@pytest.fixture(params=["forked", "program"])
def start(request: pytest.FixtureRequest, server: ForkServer, tmp_path: Path) -> Start:
    """Starts the text of a script with the environment given by keywords."""

    def start_script(text: str, **environment: str) -> Process:
        script = tmp_path / "start.py"
        script.write_text(text)
        if request.param == "forked":
            return server.start(script, environment)
        return subprocess.Popen(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start_script


def ended(process: Process) -> tuple[int, list[str]]:
    """Its exit code and the lines that it wrote."""
    with process.stdout as written:
        lines = written.read().decode().splitlines()
    return process.wait(5), lines


def test_script_finds_its_own_surroundings_when_it_starts(start: Start, tmp_path: Path) -> None:
    code, lines = ended(start(STATE, **SURROUNDINGS))
    state = json.loads(lines[0])
    assert code == 0
    assert state["environment"] == SURROUNDINGS
    assert (state["folder"], state["path"][0]) == (str(tmp_path), str(tmp_path))
    assert (state["name"], state["main"], state["local"]) == ("__main__", True, [])
    assert state["arguments"] == [str(tmp_path / "start.py")] == [state["file"]]
    assert (state["standard input"], state["zone"]) == ("", "UTC")
    assert state["open files"] == 4  # three streams, and the one that counts them


def test_search_path_is_the_same_when_a_script_is_forked(server: ForkServer, tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text("import sys, json; print(json.dumps(sys.path))")
    forked = ended(server.start(script, {}))
    assert forked == ended(
        subprocess.Popen([sys.executable, str(script)], env={}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    )


@pytest.mark.parametrize(
    ("text", "code", "last"),
    [
        ("print('done')", 0, "done"),
        ("import sys; print('out', flush=True); print('error', file=sys.stderr)", 0, "error"),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('why')", 1, "why"),
        ("import os; os._exit(3)", 3, ""),
        ("import atexit; atexit.register(print, 'last')", 0, "last"),
        ("raise RuntimeError('broken')", 1, "RuntimeError: broken"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        (
            "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('later'))).start()",
            0,
            "later",
        ),
    ],
)
def test_exit_code_and_output_are_those_of_the_script(start: Start, text: str, code: int, last: str) -> None:
    found, lines = ended(start(text))
    assert (found, "".join(lines[-1:])) == (code, last)


@pytest.mark.parametrize(("end", "code"), [("terminate", -signal.SIGTERM), ("kill", -signal.SIGKILL)])
def test_script_ends_when_it_is_told_to(start: Start, end: str, code: int) -> None:
    process = start("import time; time.sleep(60)")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    getattr(process, end)()
    assert process.wait(5) == code == process.poll()
    getattr(process, end)()  # no harm, although it is gone
    process.stdout.close()


def test_scripts_run_side_by_side_when_many_start_at_once(server: ForkServer, tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "import os, time; began = time.time(); time.sleep(1); print(os.environ['N'], os.getpid(), began, time.time())"
    )
    processes = [server.start(script, {"N": str(number)}) for number in range(20)]
    told = [ended(process)[1][0].split() for process in processes]
    assert [(int(number), int(pid)) for number, pid, *_ in told] == [(n, p.pid) for n, p in enumerate(processes)]
    assert max(float(began) for *_, began, _ in told) < min(float(end) for *_, end in told)


def test_start_says_so_when_the_server_is_gone(tmp_path: Path) -> None:
    server = ForkServer()
    server.stop()
    with pytest.raises(OSError, match=r"."):
        server.start(tmp_path / "start.py", {})


def test_process_ends_when_its_server_is_gone(tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text("import time; time.sleep(60)")
    server = ForkServer()
    process = server.start(script, {})
    server.stop()
    assert process.wait(5) == -signal.SIGKILL
    with process.stdout as written:
        assert written.read() == b""  # it has let go of it
