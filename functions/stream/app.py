"""The routes that stream, as a Starlette application behind the Lambda Web Adapter."""

import asyncio
from typing import Any

from cross_origin import with_cors
from incoming import NO_BUFFERING, body_of, caller_of
from routes_events import ROUTES as EVENTS
from routes_responses import ROUTES as RESPONSES
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stepagent.api import shapes
from stepagent.api.chat import stream_chat, whole_chat
from stepagent.api.requests import read_chat_request, read_idempotency_key
from stepagent.api.service import say
from stepagent.errors import RequestError
from stepagent.observe import identify, logger
from stepagent.runs import RunStatus


async def complete_chat(request: Request) -> Response:
    chat = read_chat_request(await body_of(request))
    key = read_idempotency_key(request.headers.get("idempotency-key"))
    caller = caller_of(request)
    following = await asyncio.to_thread(say, chat, caller.principal, key, used_key=caller.used_key)
    identify(run_id=following.run.run_id)
    headers: dict[str, str] = {"X-StepAgent-Run-Id": following.run.run_id}
    if chat.stream:
        parts = stream_chat(chat, following)
        return StreamingResponse(parts, media_type="text/event-stream", headers=headers | NO_BUFFERING)
    body = await whole_chat(following, chat.ignored)
    if reason := body.get("stepagent", {}).get("stop_reason"):
        headers["X-StepAgent-Stop-Reason"] = reason
    if "error" in body:
        headers |= shapes.NOT_AGAIN
    return JSONResponse(body, status_code=_status(body), headers=headers)


def _status(body: dict[str, Any]) -> int:
    if "error" in body:
        return 502
    return 202 if body["stepagent"]["status"] == RunStatus.RUNNING else 200


async def refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # registered for this class alone
    return JSONResponse(shapes.refusal(error), status_code=error.http_status)


async def report(request: Request, error: Exception) -> Response:
    logger.error("request failed", exc_info=error)
    return JSONResponse(shapes.defect(error), status_code=500, headers=shapes.NOT_AGAIN)


async def miss(request: Request, error: Exception) -> Response:
    return JSONResponse(shapes.nothing_here(), status_code=404)


app = Starlette(
    routes=[Route("/chat/completions", complete_chat, methods=["POST"]), *EVENTS, *RESPONSES],
    exception_handlers={RequestError: refuse, 404: miss, 405: miss, Exception: report},
)
served = with_cors(app)
