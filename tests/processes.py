"""The processes of a local stack, and the memory that they take together. Linux only."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from local.emulator import Emulator

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def processes_of(emulator: Emulator) -> list[int]:
    """The emulator and all that it started: they are one session."""
    running = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in running if _session(pid) == emulator.pid]


def memory_mb(pids: Iterable[int]) -> float:
    """Their memory in MiB; what several of them share counts once."""
    return sum(map(_pss_kb, pids)) / 1024


def cpu_s(pid: int) -> float:
    """The CPU time that a process has taken, in seconds."""
    user, system = _stat(pid)[11:13] or ("0", "0")
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields behind its name, from its state on."""
    with suppress(OSError):  # it has just ended
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _pss_kb(pid: int) -> int:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return 0
