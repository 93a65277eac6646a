"""The route of OpenAI's newer clients: a run as a response, streamed or whole."""

import asyncio

from incoming import NO_BUFFERING, body_of, caller_of
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stepagent.api.requests import read_idempotency_key
from stepagent.api.responses import begin_response, stream_response, whole_response
from stepagent.api.responses_requests import read_response_request
from stepagent.api.streams import kept_alive
from stepagent.observe import identify


async def create_response(request: Request) -> Response:
    wanted = read_response_request(await body_of(request))
    key = read_idempotency_key(request.headers.get("idempotency-key"))
    following = await asyncio.to_thread(begin_response, wanted, caller_of(request), key)
    identify(run_id=following.run.run_id)
    headers = {"X-StepAgent-Run-Id": following.run.run_id}
    if wanted.stream:
        parts = kept_alive(stream_response(following, wanted.ignored))
        return StreamingResponse(parts, media_type="text/event-stream", headers=headers | NO_BUFFERING)
    body = await whole_response(following, wanted.ignored)
    if reason := body["stepagent"]["stop_reason"]:
        headers["X-StepAgent-Stop-Reason"] = reason
    return JSONResponse(body, status_code=202 if body["status"] == "in_progress" else 200, headers=headers)


ROUTES = [Route("/responses", create_response, methods=["POST"])]
