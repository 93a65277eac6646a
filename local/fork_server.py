"""A process that has loaded what functions share, and forks the functions' processes.

A function that is started as a program costs half a second of CPU and 45 to 70 MB for each call that runs at the same
time; a forked one 0.1 s and 20 to 30 MB. In all else it is like a program: it leaves the loop below and runs its script
as the main program, with an environment, working directory, streams, import path and exit code of its own.

The fork server of `multiprocessing` would bring the emulator's own path and main module into every function, and needs
a socket file whose path is short.
"""

import json
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

START_SCRIPT = "start_function.py"  # what the bootstrap of a function runs

_PRELOADED = Path(__file__).with_name("preloaded.py")
_MAX_REQUEST_BYTES = 1 << 17
_NUMBER = struct.Struct("q")


def is_available() -> bool:
    """Whether this machine forks safely: macOS has system libraries that do not survive it."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


class ForkServer:
    """Runs scripts in forked processes, for as long as this process lives."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno())

    def start(self, script: Path, environment: Mapping[str, str]) -> "ForkedProcess":
        """Runs a script in its folder.

        Raises:
            OSError: the server is gone.
        """
        request = json.dumps([str(script), dict(environment)]).encode()
        output, written = os.pipe()
        news, told = os.pipe()
        try:
            socket.send_fds(self._requests, [request], [written, told])
        except OSError:
            os.close(output)
            os.close(news)
            raise
        finally:
            os.close(written)
            os.close(told)
        return ForkedProcess(output, news)

    def stop(self) -> None:
        """Ends the server. What it started is ended as soon as somebody asks after it."""
        self._requests.close()
        self._process.wait()


class ForkedProcess:
    """Stands for a `subprocess.Popen` whose `stdout` has both its streams, as far as the emulator uses one."""

    def __init__(self, output: int, news: int) -> None:
        self.stdout = os.fdopen(output, "rb")
        self.returncode: int | None = None
        self._news = os.fdopen(news, "rb")  # its process id, and later its exit code
        self._lock = threading.Lock()
        pid = self._read()
        if pid is None:
            raise OSError("the fork server is gone")
        self.pid = pid

    def poll(self) -> int | None:
        return self._returncode_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._returncode_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _returncode_within(self, seconds: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and _has_news(self._news, seconds):
                self.returncode = self._end()
                self._news.close()
            return self.returncode

    def _end(self) -> int:
        code = self._read()
        if code is None:  # nobody would tell of its end any more
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return -signal.SIGKILL if code is None else code

    def _read(self) -> int | None:
        packed = self._news.read(_NUMBER.size)
        return _NUMBER.unpack(packed)[0] if packed else None


def _has_news(pipe: IO[bytes], seconds: float | None) -> bool:
    poll = select.poll()  # it takes any descriptor; `select` none above 1023
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


class _Request(NamedTuple):
    script: str
    environment: dict[str, str]
    output: int


def main() -> None:
    """Serve the socket on standard input until its other end is closed. No module of this package is loaded here."""
    runpy.run_path(str(_PRELOADED))
    if request := _serve(socket.socket(fileno=0)):
        _become(request)


def _serve(requests: socket.socket) -> _Request | None:
    """Forks a process for each request: returns in each of these with its request, and at the end with None."""
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data:
                selector.unregister(key.fileobj)
                _tell_end(key.fd, *key.data)
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, _MAX_REQUEST_BYTES, 2)
            if not message:
                return None
            output, told = descriptors
            if (pid := os.fork()) == 0:
                script, environment = json.loads(message)
                return _Request(script, environment, output)
            os.close(output)
            os.write(told, _NUMBER.pack(pid))
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))


def _tell_end(ended: int, pid: int, told: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):  # nobody wants to know
        os.write(told, _NUMBER.pack(code))
    os.close(told)
    os.close(ended)


def _become(request: _Request) -> None:
    """Leaves nothing of where this process comes from, and runs the script as the main program."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(request.output, 1)
    os.dup2(request.output, 2)
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd")]:
        if descriptor > 2:
            with suppress(OSError):  # the one that listed them
                os.close(descriptor)
    folder = os.path.dirname(request.script)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    sys.argv = [request.script]
    sys.path[0] = folder
    runpy.run_path(request.script, run_name="__main__")


if __name__ == "__main__":
    main()
