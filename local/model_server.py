"""The embedded model's server process: started on 127.0.0.1, and gone when its parent is."""

import json
import subprocess
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from rich.console import Console

from local.embedded_model import ModelUnavailable, model_files

POLL_INTERVAL_S = 0.2
LOG_LINES_SHOWN = 5


def start(home: Path, port: int, log_path: Path) -> subprocess.Popen[bytes]:
    """Start the server of the model that `install` put under `home`; `wait_ready` tells when it answers.

    The server ends when its standard input does, so keep the returned process referenced as long as it
    is needed: a parent that is killed leaves nothing behind. To stop it, close `stdin` or terminate it.
    """
    files = model_files(home)
    if not (files.gguf.is_file() and files.server.is_file()):
        raise ModelUnavailable(f"The model is not installed under {home}.")
    with log_path.open("ab") as log:
        return subprocess.Popen(
            [files.node, files.server, files.gguf, str(port)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={},  # keys and Node options of the user are none of its business
            start_new_session=True,  # Ctrl-C is for the parent, which then decides
        )


def wait_ready(
    server: subprocess.Popen[bytes], port: int, log_path: Path, console: Console, timeout_s: float = 180
) -> None:
    """Return when the model is loaded, showing how far it is.

    Raises:
        ModelUnavailable: the server ended, or did not get ready in time; the message ends with its last words.
    """
    deadline = time.monotonic() + timeout_s
    with console.status("Loading the model ...") as status:
        while time.monotonic() < deadline:
            if server.poll() is not None:
                raise ModelUnavailable(
                    f"The model server ended with code {server.returncode}:\n{_last_words(log_path)}"
                )
            health = _health(port)
            if health.get("pid") == server.pid and health["status"] == "ok":
                return
            status.update(f"Loading the model ... {health.get('progress', 0):.0%}")
            time.sleep(POLL_INTERVAL_S)
    raise ModelUnavailable(f"The model server was not ready after {timeout_s:.0f} s:\n{_last_words(log_path)}")


def _health(port: int) -> dict[str, Any]:
    """What `/healthz` says: status, pid, and progress (0 to 1) while loading; empty when nobody answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        answer = json.load(connection.getresponse())
        return answer if isinstance(answer, dict) else {}
    except (OSError, HTTPException, ValueError):
        return {}
    finally:
        connection.close()


def _last_words(log_path: Path) -> str:
    return "\n".join(log_path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])
