"""The machine-local AWS as a child process: start it, find it again, stop it.

One emulator owns one state directory. Its lock on `emulator.json` is what "running" means, so a recycled process id
or a crashed emulator is never mistaken for a living one.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

REGION = "us-east-1"
ACCOUNT_ID = "000000000000"
PREFERRED_PORT = 4566

_ROOT = Path(__file__).resolve().parent.parent
_OPENER = build_opener(ProxyHandler({}))  # a proxy of the user's never sees loopback traffic


class EmulatorError(RuntimeError):
    """The local AWS is not usable; the message says why and where its log is."""


class EmulatorNotReady(EmulatorError):
    """It ended, or did not answer in time, while it was starting."""


class EmulatorStillRunning(EmulatorError):
    """It did not end in time after SIGTERM; its state may not be written."""


class PortTaken(EmulatorError):
    """The demanded port belongs to another process."""


@dataclass(frozen=True)
class Emulator:
    """A running emulator."""

    pid: int
    port: int
    state_dir: Path
    # Kept by whoever started it: a collected process object closes the pipe that a tied emulator lives by.
    process: subprocess.Popen[bytes] | None = field(default=None, compare=False, repr=False)

    @property
    def endpoint(self) -> str:
        """The URL that every AWS client is pointed at."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the emulator printed since its last start."""
        return _log(self.state_dir)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in order to take this emulator for AWS."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCOUNT_ID,  # the emulator reads the account from the key
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def start(state_dir: Path, *, port: int | None = None, detached: bool = False, timeout_s: float = 30) -> Emulator:
    """Return the emulator of `state_dir`, started unless it already runs, and ready for requests.

    Args:
        state_dir: where tables, objects, functions and runs are kept from one start to the next.
        port: demand exactly this port; without it the usual one, or any free one when that is taken.
        detached: let it outlive this process. Otherwise it writes its state and ends when this process ends.
        timeout_s: seconds until it must answer.

    Raises:
        PortTaken: the demanded port is in use.
        EmulatorNotReady: it ended or stayed silent; the message holds the end of its log.
    """
    state_dir = state_dir.resolve()  # the child's working directory is another one
    if running := find(state_dir):
        return running
    chosen, claim = _claim_port(port)
    (state_dir / "tmp").mkdir(parents=True, exist_ok=True)
    with _log(state_dir).open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "local.emulator_host", str(state_dir), *([] if detached else ["--tied"])],
            cwd=_ROOT,
            env=_host_environment(state_dir, chosen),
            stdin=subprocess.DEVNULL if detached else subprocess.PIPE,  # its end tells a tied emulator that we are gone
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(claim,),
            start_new_session=True,  # Ctrl-C reaches us alone, and we stop it in order
        )
    os.close(claim)
    emulator = Emulator(child.pid, chosen, state_dir, child)
    _wait_ready(emulator, child, timeout_s)
    return emulator


def find(state_dir: Path) -> Emulator | None:
    """Return the emulator that runs on `state_dir`, or None."""
    try:
        with (state_dir / "emulator.json").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = json.load(lock)
                return Emulator(owner["pid"], owner["port"], state_dir.resolve())
    except (FileNotFoundError, ValueError):
        pass
    return None


def stop(emulator: Emulator, *, timeout_s: float = 20) -> None:
    """End the emulator and wait until its state is on disk; nothing happens when it has already ended.

    Raises:
        EmulatorStillRunning: it did not end in time.
    """
    if find(emulator.state_dir) == emulator:
        os.kill(emulator.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while find(emulator.state_dir) == emulator:
        if time.monotonic() > deadline:
            raise EmulatorStillRunning(
                f"process {emulator.pid} did not end within {timeout_s:g} s; log: {emulator.log}"
            )
        time.sleep(0.02)
    if emulator.process:
        emulator.process.communicate()  # closes the pipe, collects the process


def _claim_port(demanded: int | None) -> tuple[int, int]:
    """A free port and the lock that the emulator holds on it: of two that start at once, only one may take a port.

    Without it, the one that came too late would be told by the other's answers that it is ready.
    """
    for port in (demanded or PREFERRED_PORT, *([] if demanded else [_any_port() for _ in range(5)])):
        claim = os.open(Path(tempfile.gettempdir()) / f"stepagent-{os.getuid()}-{port}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_free(port):
                return port, claim
        except BlockingIOError:
            pass
        os.close(claim)
    raise PortTaken(f"port {demanded or PREFERRED_PORT} is in use by another process")


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _host_environment(state_dir: Path, port: int) -> dict[str, str]:
    """The whole environment: the emulator hands its own on to every function, so nothing of the user's is in it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",  # functions follow a changed port without a new deployment
        "MINISTACK_REGION": REGION,
        "MINISTACK_ACCOUNT_ID": ACCOUNT_ID,
        "PERSIST_STATE": "1",
        "S3_PERSIST": "1",
        "STATE_DIR": str(state_dir / "state"),
        "S3_DATA_DIR": str(state_dir / "s3"),
        "TMPDIR": str(state_dir / "tmp"),
        "LAMBDA_EXECUTOR": "local",
        "IOT_MTLS_ENABLED": "0",  # it would listen on port 8883
        "SFTP_ENABLED": "0",  # it would listen on port 2222, on every interface
        "DOCKER_HOST": "unix:///nonexistent",  # it would remove containers of other emulators
        "LOG_LEVEL": "WARNING",
        "PYTHONUNBUFFERED": "1",
    }


def _wait_ready(emulator: Emulator, child: subprocess.Popen[bytes], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not _answers(emulator):
        if child.poll() is not None:
            child.communicate()
            raise EmulatorNotReady(f"the emulator ended with code {child.returncode}: {_log_end(emulator)}")
        if time.monotonic() > deadline:
            child.kill()
            child.communicate()
            raise EmulatorNotReady(f"no answer on port {emulator.port} within {timeout_s:g} s: {_log_end(emulator)}")
        time.sleep(0.05)


def _answers(emulator: Emulator) -> bool:
    try:
        with _OPENER.open(f"{emulator.endpoint}/_ministack/health", timeout=2) as response:
            return bool(response.status == 200) and find(emulator.state_dir) == emulator
    except (URLError, OSError):
        return False


def _log(state_dir: Path) -> Path:
    return state_dir / "emulator.log"


def _log_end(emulator: Emulator) -> str:
    return " | ".join(emulator.log.read_text(errors="replace").splitlines()[-5:])
