"""The route that streams: chat completions, as a Starlette application behind the Lambda Web Adapter."""

import asyncio
import json
from typing import Any

import routes_events
import routes_responses
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stepagent.api import shapes
from stepagent.api.chat import stream_chat, whole_chat
from stepagent.api.keys import Caller, caller_in
from stepagent.api.body import MAX_BODY_BYTES
from stepagent.api.chat import stream_chat, whole_chat
from stepagent.api.requests import read_chat_request, read_idempotency_key
from stepagent.api.service import say
from stepagent.errors import BodyTooLarge, RequestError
from stepagent.observe import logger
from stepagent.runs import RunStatus

_NO_BUFFERING = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def complete_chat(request: Request) -> Response:
    chat = read_chat_request(await _read_body(request))
    key = read_idempotency_key(request.headers.get("idempotency-key"))
    caller = _caller(request)
    following = await asyncio.to_thread(say, chat, caller.principal, key, used_key=caller.used_key)
    headers = {"X-StepAgent-Run-Id": following.run.run_id}
    if chat.stream:
        return StreamingResponse(
            stream_chat(chat, following), media_type="text/event-stream", headers=headers | _NO_BUFFERING
        )
    body = await whole_chat(following)
    return JSONResponse(body, status_code=_status(body), headers=headers)


def _status(body: dict[str, Any]) -> int:
    if "error" in body:
        return 502
    return 202 if body["stepagent"]["status"] == RunStatus.RUNNING else 200


async def _read_body(request: Request) -> bytes:
    """The body, read no further than the limit."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge(f"The body has more than {MAX_BODY_BYTES} bytes, which is the limit.")
    return body


def _caller(request: Request) -> Caller:
    """Who calls, as API Gateway's authorizer found; the Web Adapter passes its context in this header."""
    return caller_in(json.loads(request.headers["x-amzn-request-context"])["authorizer"])


async def refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # registered for this class alone
    return JSONResponse(shapes.refusal(error), status_code=error.http_status)


async def report(request: Request, error: Exception) -> Response:
    logger.error("request failed", exc_info=error)
    return JSONResponse(shapes.defect(error), status_code=500)


app = Starlette(
    routes=[Route("/chat/completions", complete_chat, methods=["POST"]), *routes_events.ROUTES, *routes_responses.ROUTES],
    exception_handlers={RequestError: refuse, Exception: report},
)
