"""The HTTP API on 127.0.0.1: streams through the product's own application, the rest through the emulator's REST API.

What API Gateway does between a client and the functions is done here: finding the route, and telling who calls.
Whoever reaches this port is the principal `local`, or, with a key that `keys create` made, the one that the key names;
web pages of other origins are turned away.
"""

import argparse
import asyncio
import importlib.util
import json
import logging
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

import httpx
import uvicorn
from botocore.exceptions import ConnectionError as BotoConnectionError
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from local.callers import LocalCallersOnly
from local.front_page import front_page
from stepagent.api.cors import ALLOWED_HEADERS, ALLOWED_METHODS, EXPOSED_HEADERS, PREFLIGHT_S
from stepagent.api.keys import bearer_in, caller_of_key, is_well_formed
from stepagent.api.shapes import error_body

STREAM_APP = Path(__file__).resolve().parent.parent / "functions" / "stream" / "app.py"
REQUEST_CONTEXT = json.dumps({"authorizer": {"principalId": "local"}}).encode()

_CONTEXT_HEADER = b"x-amzn-request-context"  # where the Lambda Web Adapter puts what the authorizer found
_NOT_FORWARDED = {"host", "connection", "content-length", "authorization", "accept-encoding", "transfer-encoding"}
_NOT_COPIED = {"connection", "content-length", "transfer-encoding", "keep-alive", "date", "server"}
_API_TIMEOUT_S = 29  # API Gateway's own
_MAX_BODY_BYTES = 10 * 1024 * 1024  # API Gateway's own, too

_PATH_CHARS = "/-._~!$&'()*+,;=:@"  # that stand in paths as they are

_log = logging.getLogger(__name__)


class FrontDoor:
    """Everything under `/v1`, as an ASGI application."""

    def __init__(self, stream_app: Starlette, api_url: str, api_key: str) -> None:
        self._stream_app = stream_app
        self._api = httpx.AsyncClient(
            base_url=api_url,
            headers={"authorization": f"Bearer {api_key}", "accept-encoding": "identity"},
            timeout=_API_TIMEOUT_S,
            trust_env=False,  # a proxy of the user's never sees loopback traffic
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "HEAD":  # API Gateway has no such method, and a stream would follow its run for nobody
            await _no_such_route(request)(scope, receive, send)
            return
        if any(route.matches(scope)[0] is Match.FULL for route in self._stream_app.routes):
            context = await asyncio.to_thread(_context, _own_key(request))
            if context is None:
                await _refuse(401, "The key is missing or not valid.", "invalid_api_key")(scope, receive, send)
                return
            headers = [item for item in scope["headers"] if item[0] != _CONTEXT_HEADER]
            await self._stream_app({**scope, "headers": [*headers, (_CONTEXT_HEADER, context)]}, receive, send)
            return
        await (await self._forward(request))(scope, receive, send)

    async def _forward(self, request: Request) -> Response:
        headers = {
            name: value.strip()  # a blank around a value is none of it, and httpx sends none
            for name, value in request.headers.raw
            if name.decode("latin-1") not in _NOT_FORWARDED
        }
        if key := _own_key(request):
            headers[b"authorization"] = f"Bearer {key}".encode()
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if ".." in path.split("/") or not path.isprintable():
            return _no_such_route(request)
        body = await _body_of(request)
        if body is None:
            return _refuse(413, f"The body has more than {_MAX_BODY_BYTES} bytes.", "body_too_large")
        try:
            answer = await self._api.request(
                request.method,
                quote(path, safe=_PATH_CHARS),  # else a # or a ? of an id would end the path
                params=request.url.query,
                content=body,
                headers=headers,
            )
        except httpx.InvalidURL:
            return _no_such_route(request)
        except httpx.TimeoutException:
            return _refuse(504, f"The local AWS did not answer within {_API_TIMEOUT_S} s.", "timeout")
        except httpx.HTTPError as error:
            _log.warning("the emulator is not reachable: %r", error)
            return _emulator_down()
        return _copy(request, answer)


def _own_key(request: Request) -> str:
    """The key that was made for this stack, "" where a client sends any other text: locally nobody needs one."""
    key = bearer_in(request.headers.get("authorization", ""))
    return key if is_well_formed(key) else ""


def _context(key: str) -> bytes | None:
    """What the authorizer finds, or None for a key that is not valid."""
    if not key:
        return REQUEST_CONTEXT
    caller = caller_of_key(key)
    return json.dumps({"authorizer": {"principalId": caller.principal, **caller.context}}).encode() if caller else None


async def _body_of(request: Request) -> bytes | None:
    """The body, None where it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY_BYTES:
            return None
    return body


def _copy(request: Request, answer: httpx.Response) -> Response:
    """The answer as it came; errors that API Gateway itself makes get the shape that OpenAI clients read."""
    error = _object_in(answer) if answer.status_code >= 400 else {}
    message = error.get("message") or error.get("Message")
    if message == "Missing Authentication Token":  # how API Gateway says that there is no such route
        return _no_such_route(request)
    if message:
        return _refuse(answer.status_code, str(message), "api_error")
    headers = {name: value for name, value in answer.headers.items() if name not in _NOT_COPIED}
    return Response(answer.content, answer.status_code, headers)


def _object_in(answer: httpx.Response) -> dict[str, Any]:
    """The JSON object of a body, {} where it is something else."""
    try:
        content = answer.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _refuse(status: int, message: str, code: str) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse(error_body(message, kind, code), status)


def _no_such_route(request: Request, _: Exception | None = None) -> JSONResponse:
    return _refuse(404, f"There is no {request.method} {request.url.path} here.", "not_found")


def _emulator_down() -> JSONResponse:
    return _refuse(502, "The local AWS cannot be reached. `make up` starts it again.", "emulator_down")


async def _crashed(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, BotoConnectionError):
        return _emulator_down()
    return _refuse(500, f"The request failed ({type(error).__name__}); the front door's log has the reason.", "crashed")


async def _healthz(_: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


def create_app(api_url: str, api_key: str) -> LocalCallersOnly:
    """The whole HTTP API."""
    front_door = FrontDoor(_load_stream_app(), api_url, api_key)
    pages = [Route(path, front_page, methods=["GET"]) for path in ("/", "/v1", "/v1/")]
    routes = [Route("/healthz", _healthz), *pages, Mount("/v1", app=front_door)]
    refusals: dict[Any, Any] = {404: _no_such_route, 405: _no_such_route, Exception: _crashed}
    app = Starlette(routes=routes, exception_handlers=refusals)
    return LocalCallersOnly(_for_local_pages(app))


def _for_local_pages(app: ASGIApp) -> ASGIApp:
    """Lets a page of another port of this machine read what it is told; other pages do not come so far."""
    return CORSMiddleware(
        app,
        allow_origin_regex=r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?",
        allow_methods=ALLOWED_METHODS,
        allow_headers=ALLOWED_HEADERS,
        expose_headers=EXPOSED_HEADERS,
        max_age=PREFLIGHT_S,
    )


def _load_stream_app() -> Starlette:
    """The application by its path: every function's module is called `app`."""
    spec = importlib.util.spec_from_file_location("stream_app", STREAM_APP)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(STREAM_APP.parent))  # a function's folder is an import root
    spec.loader.exec_module(module)
    app: Starlette = module.app
    return app


class _Server(uvicorn.Server):
    """Ends at once when told to: a stream may stay open for as long as a person thinks."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        os._exit(0)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve until SIGTERM; with `--tied` also no longer than standard input is open."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tied", action="store_true", help="end when standard input ends")
    arguments = parser.parse_args()
    if arguments.tied:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    app = create_app(os.environ["STEPAGENT_API_URL"], os.environ["STEPAGENT_API_KEY"])
    _Server(
        uvicorn.Config(app, host="127.0.0.1", port=arguments.port, log_config=None, access_log=False, lifespan="off")
    ).run()


if __name__ == "__main__":
    main()
