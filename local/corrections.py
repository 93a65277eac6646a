"""What ministack does otherwise than AWS and the product's loop needs, corrected: one function and one reason each.

They reach into ministack's modules, so its version is exact: on a bump, read each again, and let
`tests/integration/test_emulator.py` say which are still needed.
"""

import functools
import string
import subprocess
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn

from local.callers import LocalCallersOnly
from local.fork_server import START_SCRIPT, ForkServer, is_available
from local.map_corrections import correct_map_runs
from local.state_corrections import correct_step_functions, execution_of_task, replace, require_running, turn_came
from local.turns import MOST, Turns


def apply() -> None:
    """Correct ministack in this process, before it starts."""
    correct_server()
    correct_api_gateway()
    correct_dynamodb()
    correct_secrets()
    correct_lambda()
    correct_step_functions()
    correct_map_runs()


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

    replace(apigateway_v1, "_import_rest_api", with_gateway_responses)
    replace(apigateway_v1, "_import_operation", with_preflights)


# ---- DynamoDB


def correct_dynamodb() -> None:
    """It reads the grammar of a query's condition anew for every item that it looks at."""
    from ministack.services import dynamodb

    dynamodb._condition_syntax_error = functools.lru_cache(1000)(dynamodb._condition_syntax_error)


# ---- Secrets Manager


def correct_secrets() -> None:
    """It puts punctuation into a secret that a template generates, although that excludes it."""
    from ministack.services.cloudformation import provisioners

    def without_punctuation(_: Any, secret_string: Any) -> Any:
        def made(properties: dict[str, Any]) -> Any:
            wanted = properties.get("GenerateSecretString", {})
            if wanted.get("ExcludePunctuation") in (True, "true"):
                excluded = wanted.get("ExcludeCharacters", "") + string.punctuation
                properties = {**properties, "GenerateSecretString": {**wanted, "ExcludeCharacters": excluded}}
            return secret_string(properties)

        return made

    replace(provisioners, "_sm_secret_string", without_punctuation)


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
    replace(lambda_runtime.ProvidedWorker, "invoke", _dies_alone)
    replace(lambda_svc, "_execute_function_provided_warm", _in_turn)
    replace(lambda_svc, "acquire_worker", _instead_of_an_idle_one)


def _forking(server: ForkServer) -> Callable[..., Any]:
    """It starts each process of a function as a program."""

    def popen(command: list[str], **options: Any) -> Any:
        script = Path(command[0]).with_name(START_SCRIPT)
        return server.start(script, options["env"]) if script.exists() else subprocess.Popen(command, **options)

    return popen


def _dies_alone(_worker: Any, invoke: Any) -> Any:
    """It ends all processes of a function when one of them dies while it starts, and has no name for that."""
    from ministack.core.lambda_runtime import ProvidedInitTimeout, ProvidedRuntimeError

    def invoke_alone(worker: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return invoke(worker, *arguments, **options)
        except (ProvidedInitTimeout, ProvidedRuntimeError):  # those have names, and befall each process alike
            raise
        except RuntimeError as error:
            died = {"errorMessage": str(error), "errorType": "Runtime.ExitError"}
            return {"status": "error", "error": str(error), "error_payload": died, "log": ""}

    return invoke_alone


_turns = Turns()


def _in_turn(module: Any, execute: Any) -> Any:
    """It runs whatever is asked for at once: a hundred calls are a hundred processes, of which none gets on."""

    def execute_in_turn(function: dict[str, Any], event: Any, request_id: str) -> Any:
        asked_by_function = bool(module._invoke_depth.get())  # one that waits for it holds a turn
        with _turns.turn((function.get("config") or function)["FunctionArn"], at_once=asked_by_function):
            if came := turn_came.get():
                came.set()
            if execution := execution_of_task.get():
                require_running(execution)
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
