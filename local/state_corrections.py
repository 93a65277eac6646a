"""What ministack's Step Functions do otherwise than AWS, corrected as in `corrections`."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

# Of the task that this thread carries out: its execution, and what its call sets when its turn comes.
execution_of_task: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("execution", default=None)
turn_came: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("turn_came", default=None)


def replace(module: Any, name: str, wrap: Callable[[Any, Any], Any]) -> None:
    """Puts in place of a function of a module what `wrap` makes of the two."""
    setattr(module, name, wrap(module, getattr(module, name)))


def correct_step_functions() -> None:
    """Make time-outs, failures and aborts of tasks arrive as they do on AWS, and start executions at once."""
    from ministack.services import stepfunctions

    stepfunctions.time = _without_start_delay(stepfunctions.time)
    replace(stepfunctions, "_execute_task", _with_evaluated_timeout)
    replace(stepfunctions, "_execute_task", _unless_stopped)
    replace(stepfunctions, "_invoke_resource_with_timeout", _from_its_turn_on)
    replace(stepfunctions, "_invoke_with_callback", _with_token_in_context)
    replace(stepfunctions, "_call_lambda", _with_failed_callback)
    replace(stepfunctions, "_fail_execution", _unless_ended)
    replace(stepfunctions, "_restore_state", _with_news_of_lost_executions)


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


def _unless_stopped(_module: Any, execute: Any) -> Any:
    """It goes on with the Map items of an execution that was stopped."""

    def execute_task(state: dict[str, Any], given: Any, execution: Any, context: Any) -> Any:
        require_running(execution)
        previous = execution_of_task.set(execution)  # it may be stopped while a call waits for its turn
        try:
            return execute(state, given, execution, context)
        finally:
            execution_of_task.reset(previous)

    return execute_task


def require_running(execution: dict[str, Any]) -> None:
    """Fails the task of an execution that was stopped."""
    from ministack.services.stepfunctions import _ExecutionError

    if execution["status"] != "RUNNING":
        raise _ExecutionError("States.Runtime", "the execution has ended")


def _from_its_turn_on(module: Any, invoke: Any) -> Any:
    """It would count as a call's time what the call waits for its turn, for which there is no wait on AWS."""

    def invoke_resource_with_timeout(resource: str, given: Any, timeout: float) -> Any:
        if ":lambda:" not in resource:
            return invoke(resource, given, timeout)
        came = threading.Event()
        context = contextvars.copy_context()
        context.run(turn_came.set, came)
        pool = ThreadPoolExecutor(max_workers=1)
        future = pool.submit(context.run, module._invoke_resource, resource, given)
        future.add_done_callback(lambda _: came.set())  # it may fail without a turn
        pool.shutdown(wait=False)
        came.wait()
        try:
            return future.result(timeout)
        except TimeoutError:
            raise module._ExecutionError("States.Timeout", f"Task timed out after {timeout} seconds") from None

    return invoke_resource_with_timeout


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
