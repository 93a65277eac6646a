"""The front door as a child process: start it, find it again, stop it.

It holds a lock on the state file for as long as it lives, so that a recycled process id is never taken for it. It also
holds the pipe by which the embedded model's server lives: whatever ends the front door ends the model.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

PREFERRED_PORT = 8090
_ROOT = Path(__file__).resolve().parent.parent
_READY_S = 20
_END_S = 10


class FrontDoorFailed(RuntimeError):
    """It did not start, or did not end; the message says where its log is."""


@dataclass(frozen=True)
class Running:
    """What runs, as the state file tells it.

    `fingerprint` names code, model and key; `tied` means that it ends with the command that started it.
    """

    pid: int
    port: int
    fingerprint: str
    model: str
    model_port: int
    model_pid: int
    tied: bool

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@dataclass(frozen=True)
class Plan:
    """How to start it. `model` is the embedded model's server, whose life is handed over."""

    environment: Mapping[str, str]
    fingerprint: str
    label: str
    model: subprocess.Popen[bytes] | None
    model_port: int
    tied: bool


def find(home: Path) -> Running | None:
    """Return the front door that runs for `home`, or None."""
    try:
        with _state_file(home).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return Running(**json.load(lock))
    except (FileNotFoundError, ValueError, TypeError):
        pass
    return None


def start(home: Path, plan: Plan, preferred_port: int = PREFERRED_PORT) -> tuple[Running, subprocess.Popen[bytes]]:
    """Return a front door that answers; the caller made sure that none runs.

    Raises:
        FrontDoorFailed: it ended at once, or stayed silent.
    """
    port = free_port(preferred_port)
    lock = _lock(home)
    try:
        child = _spawn(home, plan, port, lock)
        model_pid = plan.model.pid if plan.model else 0
        running = Running(child.pid, port, plan.fingerprint, plan.label, plan.model_port, model_pid, plan.tied)
        os.ftruncate(lock, 0)
        os.write(lock, json.dumps(asdict(running)).encode())
    finally:
        os.close(lock)
    if plan.model and plan.model.stdin:
        plan.model.stdin.close()  # the front door's copy is now the only one
    _wait_ready(home, running, child)
    return running, child


def stop(home: Path) -> None:
    """End the front door, and with it the model; nothing happens when none runs.

    Raises:
        FrontDoorFailed: it is still there after ten seconds.
    """
    running = find(home)
    if running is None:
        return
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_S
    while find(home):
        if time.monotonic() > deadline:
            raise FrontDoorFailed(f"Process {running.pid} did not end within {_END_S} s. Log: {log_path(home)}")
        time.sleep(0.02)
    while running.model_pid and not _has_ended(running.model_pid) and time.monotonic() < deadline:
        time.sleep(0.02)


def free_port(preferred: int) -> int:
    """The preferred port of 127.0.0.1, or any free one where that is taken."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise FrontDoorFailed("There is no free port on 127.0.0.1.")


def log_path(home: Path) -> Path:
    return home / "front_door.log"


def _spawn(home: Path, plan: Plan, port: int, lock: int) -> subprocess.Popen[bytes]:
    kept = [lock, *([plan.model.stdin.fileno()] if plan.model and plan.model.stdin else [])]
    with log_path(home).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "local.front_door", "--port", str(port), *(["--tied"] if plan.tied else [])],
            cwd=_ROOT,
            env=dict(plan.environment),
            stdin=subprocess.PIPE if plan.tied else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=kept,
            start_new_session=True,  # Ctrl-C reaches the client alone, which ends us in order
        )


def _wait_ready(home: Path, running: Running, child: subprocess.Popen[bytes]) -> None:
    url = f"http://127.0.0.1:{running.port}/healthz"
    deadline = time.monotonic() + _READY_S
    while not _answers(url):
        if child.poll() is not None or time.monotonic() > deadline:
            last = log_path(home).read_text(errors="replace").splitlines()[-1:]
            raise FrontDoorFailed(f"The HTTP API did not start: {' '.join(last)}\nLog: {log_path(home)}")
        time.sleep(0.05)


def _answers(url: str) -> bool:
    try:
        return bool(httpx.get(url, timeout=2, trust_env=False).is_success)
    except httpx.HTTPError:
        return False


def _has_ended(pid: int) -> bool:
    """Only ever looked at, never a reason to end anything: the number may be another process by now."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # where it is ours, it would stay a zombie
    try:
        os.kill(pid, 0)
    except OSError:
        return True
    return False


def _lock(home: Path) -> int:
    """The locked state file. A child that inherits it holds the lock until it ends."""
    lock = os.open(_state_file(home), os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(50):  # a look from `find` holds it for a moment
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return lock
    os.close(lock)
    raise FrontDoorFailed(f"Another process holds {_state_file(home)}, and it does not say what runs.")


def _state_file(home: Path) -> Path:
    return home / "stack.json"
