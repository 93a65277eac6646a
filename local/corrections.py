"""What ministack does otherwise than AWS and the product's loop needs, corrected: one function and one reason each.

They reach into ministack's modules, so its version is exact: on a bump, read each again, and let
`tests/integration/test_emulator.py` say which are still needed.
"""

import contextvars
import functools
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn

from local.callers import LocalCallersOnly
from local.fork_server import START_SCRIPT, ForkServer, is_available
from local.turns import MOST, Turns


def apply() -> None:
    """Correct ministack in this process, before it starts."""
    correct_server()
    correct_api_gateway()
    correct_dynamodb()
    correct_lambda()
    correct_step_functions()


def _replace(module: Any, name: str, wrap: Callable[[Any, Any], Any]) -> None:
    setattr(module, name, wrap(module, getattr(module, name)))


# ---- the server


def correct_server() -> None:
    """It answers pages of any origin, so a page in a browser could read secrets and run code here."""
    import hypercorn.asyncio
    from ministack import app

    app.app = LocalCallersOnly(app.app, open_below="/_aws/execute-api/")
    hypercorn.asyncio.serve = _serve  # type: ignore[assignment]


async def _serve(app: Any, config: Any) -> None:
    """Most of what a small request costs here is the server that reads it; this one costs a third."""
    host, _, port = config.bind[0].rpartition(":")
    settings = uvicorn.Config(
        app,
        host,
        int(port),
        http="httptools",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        date_header=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )
    await uvicorn.Server(settings).serve()


# ---- API Gateway


def correct_api_gateway() -> None:
    """It leaves out what an OpenAPI document says of responses: the gateway's own, and those to preflights."""
    from ministack.services import apigateway_v1

    def with_gateway_responses(module: Any, import_api: Any) -> Any:
        def imported(spec: Any, base_data: Any = None) -> Any:
            api_id = import_api(spec, base_data)
            for kind, response in spec.get("x-amazon-apigateway-gateway-responses", {}).items():
                module._put_gateway_response(api_id, kind, response)
            return api_id

        return imported

    def with_preflights(module: Any, import_operation: Any) -> Any:
        def imported(api_id: str, resource_id: str, method: str, operation: Any, *more: Any) -> None:
            import_operation(api_id, resource_id, method, operation, *more)
            integration = operation.get("x-amazon-apigateway-integration", {})
            for response in integration.get("responses", {}).values() if method == "OPTIONS" else ():
                module._put_integration_response(api_id, resource_id, method, response["statusCode"], response)

        return imported

    _replace(apigateway_v1, "_import_rest_api", with_gateway_responses)
    _replace(apigateway_v1, "_import_operation", with_preflights)


# ---- DynamoDB


def correct_dynamodb() -> None:
    """It reads the grammar of a query's condition anew for every item that it looks at."""
    from ministack.services import dynamodb

    dynamodb._condition_syntax_error = functools.lru_cache(1000)(dynamodb._condition_syntax_error)


# ---- Lambda


def correct_lambda() -> None:
    """Make a warm call cost what the function costs, and many at once no more than this machine has."""
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc

    # Without it, Nagle's algorithm and the client's delayed ACK add 40 ms to every answer of the runtime API.
    BaseHTTPRequestHandler.disable_nagle_algorithm = True
    # A call that logs nothing waits 50 ms for a first line; what comes later is reported with the next call.
    lambda_runtime.ProvidedWorker._drain_stderr_bounded.__defaults__ = (0.002, 0.001, 0.25)
    if is_available():
        popen = _forking(ForkServer())
        lambda_runtime.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    _replace(lambda_svc, "_execute_function_provided_warm", _in_turn)
    _replace(lambda_svc, "acquire_worker", _instead_of_an_idle_one)


def _forking(server: ForkServer) -> Callable[..., Any]:
    """It starts each process of a function as a program."""

    def popen(command: list[str], **options: Any) -> Any:
        script = Path(command[0]).with_name(START_SCRIPT)
        return server.start(script, options["env"]) if script.exists() else subprocess.Popen(command, **options)

    return popen


_turns = Turns()
_turn_came: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("turn_came", default=None)


def _in_turn(module: Any, execute: Any) -> Any:
    """It runs whatever is asked for at once: a hundred calls are a hundred processes, of which none gets on."""

    def execute_in_turn(function: dict[str, Any], event: Any, request_id: str) -> Any:
        asked_by_function = bool(module._invoke_depth.get())  # one that waits for it holds a turn
        with _turns.turn((function.get("config") or function)["FunctionArn"], at_once=asked_by_function):
            if came := _turn_came.get():
                came.set()
            if execution := _execution.get():
                _require_running(execution)
            return execute(function, event, request_id)

    return execute_in_turn


def _instead_of_an_idle_one(module: Any, acquire: Any) -> Any:
    """It keeps every process that it ever needed at the same time for five minutes."""
    from ministack.core import lambda_runtime

    def acquire_worker(*arguments: Any, **options: Any) -> Any:
        acquired = acquire(*arguments, **options)
        with lambda_runtime._lock:
            pools = lambda_runtime._workers.values()
            idle = [(worker, pool) for pool in pools for worker in pool if not worker.in_use]
            surplus = max(0, sum(map(len, pools)) - MOST)
            ended = sorted(idle, key=lambda found: found[0].last_used)[:surplus]
            for worker, pool in ended:
                pool.remove(worker)
        lambda_runtime.kill_workers([worker for worker, _ in ended])
        return acquired

    return acquire_worker


# ---- Step Functions


def correct_step_functions() -> None:
    """Make time-outs, failures and aborts of tasks arrive as they do on AWS, and start executions at once."""
    from ministack.services import stepfunctions

    stepfunctions.time = _without_start_delay(stepfunctions.time)
    _replace(stepfunctions, "_execute_task", _with_evaluated_timeout)
    _replace(stepfunctions, "_execute_task", _unless_stopped)
    _replace(stepfunctions, "_invoke_resource_with_timeout", _from_its_turn_on)
    _replace(stepfunctions, "_invoke_with_callback", _with_token_in_context)
    _replace(stepfunctions, "_call_lambda", _with_failed_callback)
    _replace(stepfunctions, "_fail_execution", _unless_ended)
    _replace(stepfunctions, "_restore_state", _with_news_of_lost_executions)


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


_execution: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("execution", default=None)


def _unless_stopped(_module: Any, execute: Any) -> Any:
    """It goes on with the Map items of an execution that was stopped."""

    def execute_task(state: dict[str, Any], given: Any, execution: Any, context: Any) -> Any:
        _require_running(execution)
        previous = _execution.set(execution)  # a call may wait for its turn, and the execution be stopped meanwhile
        try:
            return execute(state, given, execution, context)
        finally:
            _execution.reset(previous)

    return execute_task


def _require_running(execution: dict[str, Any]) -> None:
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
        context.run(_turn_came.set, came)
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
