"""The process behind `emulator.start`: ministack, with the few corrections that the product's loop needs."""

import argparse
import fcntl
import importlib.metadata
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from local import corrections

MINISTACK_VERSION = "1.5.33"


def main() -> None:
    """Run the emulator of one state directory until SIGTERM, and leave no process behind."""
    arguments = _parse_arguments()
    _check_version(importlib.metadata.version("ministack"))
    lock = _lock(arguments.state_dir)
    if arguments.tied:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["ministack"]  # it parses the command line itself
    try:
        corrections.apply()
        from ministack.app import main as run_ministack

        run_ministack()
    except Exception:
        traceback.print_exc()  # the exit below would swallow it
    finally:
        _end_everything(lock)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--tied", action="store_true", help="end when standard input ends")
    return parser.parse_args()


def _check_version(found: str) -> None:
    if found != MINISTACK_VERSION:
        sys.exit(f"ministack {MINISTACK_VERSION} is needed, found {found}: pip install ministack=={MINISTACK_VERSION}")


def _lock(state_dir: Path) -> int:
    """Hold the state directory for as long as this process lives; the kernel lets go, whatever ends it."""
    lock = os.open(state_dir / "emulator.json", os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(50):  # a look from `find` holds it for a moment
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            os.ftruncate(lock, 0)
            os.write(lock, json.dumps({"pid": os.getpid(), "port": int(os.environ["GATEWAY_PORT"])}).encode())
            return lock
    sys.exit(f"another emulator uses {state_dir}")


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _end_everything(lock: int) -> None:
    """End the functions' processes with us, and wait for no thread: a task that waits for a person would hold us."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGTERM)
    os.close(lock)
    os._exit(0)


if __name__ == "__main__":
    main()
