"""The process behind `emulator.start`: ministack, with the few corrections that the product's loop needs.

Every correction is one function below, with the reason. They reach into ministack's modules, so its version is exact:
on a bump, read each again, and let `tests/integration/test_emulator.py` say which are still needed.
"""

import argparse
import contextvars
import fcntl
import importlib.metadata
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from local.callers import LocalCallersOnly

MINISTACK_VERSION = "1.5.33"


def main() -> None:
    """Run the emulator of one state directory until SIGTERM, and leave no process behind."""
    arguments = _parse_arguments()
    _check_version(importlib.metadata.version("ministack"))
    lock = _lock(arguments.state_dir)
    if arguments.tied:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    correct_lambda()
    correct_step_functions()
    correct_server()
    from ministack.app import main as run_ministack

    sys.argv = ["ministack"]  # it parses the command line itself
    try:
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


# ---- the server


def correct_server() -> None:
    """It answers pages of any origin, so a page in a browser could read secrets and run code here."""
    from ministack import app

    app.app = LocalCallersOnly(app.app)


# ---- Lambda


def correct_lambda() -> None:
    """Make a warm call cost what the function costs."""
    from ministack.core.lambda_runtime import ProvidedWorker

    # Without it, Nagle's algorithm and the client's delayed ACK add 40 ms to every answer of the runtime API.
    BaseHTTPRequestHandler.disable_nagle_algorithm = True
    # A call that logs nothing waits 50 ms for a first line; what comes later is reported with the next call.
    ProvidedWorker._drain_stderr_bounded.__defaults__ = (0.002, 0.001, 0.25)


# ---- Step Functions


def correct_step_functions() -> None:
    """Make time-outs, failures and aborts of tasks arrive as they do on AWS, and start executions at once."""
    from ministack.services import stepfunctions

    stepfunctions.time = _without_start_delay(stepfunctions.time)
    _replace(stepfunctions, "_execute_task", _with_evaluated_timeout)
    _replace(stepfunctions, "_execute_task", _unless_stopped)
    _replace(stepfunctions, "_invoke_with_callback", _with_token_in_context)
    _replace(stepfunctions, "_call_lambda", _with_failed_callback)
    _replace(stepfunctions, "_fail_execution", _unless_ended)
    _replace(stepfunctions, "_restore_state", _with_news_of_lost_executions)


def _replace(module: Any, name: str, wrap: Callable[[Any, Any], Any]) -> None:
    setattr(module, name, wrap(module, getattr(module, name)))


def _without_start_delay(clock: Any) -> Any:
    """It sleeps 150 ms before each execution; no Wait and no Retry can ask for that time."""

    def sleep(seconds: float) -> None:
        if seconds != 0.15:
            clock.sleep(seconds)

    return SimpleNamespace(**{**vars(clock), "sleep": sleep})


def _with_evaluated_timeout(module: Any, execute: Any) -> Any:
    """It compares the text of a JSONata `TimeoutSeconds` with a number."""

    def execute_task(state: dict[str, Any], given: Any, execution: Any, context: Any) -> Any:
        if isinstance(state.get("TimeoutSeconds"), str):
            seconds = module._jsonata_state_field(state, "TimeoutSeconds", "number", given, context)
            state = {**state, "TimeoutSeconds": seconds}
        return execute(state, given, execution, context)

    return execute_task


def _unless_stopped(module: Any, execute: Any) -> Any:
    """It goes on with the Map items of an execution that was stopped."""

    def execute_task(state: dict[str, Any], given: Any, execution: Any, context: Any) -> Any:
        if execution["status"] != "RUNNING":
            raise module._ExecutionError("States.Runtime", "the execution has ended")
        return execute(state, given, execution, context)

    return execute_task


_token: contextvars.ContextVar[str | None] = contextvars.ContextVar("token", default=None)


def _with_token_in_context(_module: Any, invoke: Any) -> Any:
    """Tells `_with_failed_callback` which task it calls the function for."""

    def invoke_with_callback(resource: str, given: Any, token: str, state: dict[str, Any]) -> Any:
        previous = _token.set(token)
        try:
            return invoke(resource, given, token, state)
        finally:
            _token.reset(previous)

    return invoke_with_callback


def _with_failed_callback(module: Any, call: Any) -> Any:
    """It ignores that a function under `.waitForTaskToken` failed, and waits for a token nobody has."""

    def call_lambda(function: str, event: Any) -> Any:
        try:
            return call(function, event)
        except module._ExecutionError as error:
            waiting = module._task_tokens.get(_token.get())
            if waiting and not waiting["event"].is_set():
                waiting["error"] = {"Error": error.error, "Cause": error.cause}
                waiting["event"].set()
            raise

    return call_lambda


def _unless_ended(_module: Any, fail: Any) -> Any:
    """It turns an aborted execution into a failed one when the task that was running fails later."""

    def fail_execution(execution: dict[str, Any], error: str, cause: str) -> None:
        if execution["status"] == "RUNNING":
            fail(execution, error, cause)

    return fail_execution


def _with_news_of_lost_executions(module: Any, restore: Any) -> Any:
    """It fails what was running when it stopped, and tells no rule, so that nothing would close those runs."""

    def restore_state(data: dict[str, Any]) -> None:
        lost = [item["executionArn"] for item in data["executions"].all_values() if item["status"] == "RUNNING"]
        restore(data)
        for arn in lost:  # a moment later, when rules and functions are back and the port is open
            threading.Timer(0.5, lambda arn=arn: module._emit_execution_status_event(module._executions[arn])).start()

    return restore_state


if __name__ == "__main__":
    main()
