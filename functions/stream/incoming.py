"""What the routes read of a request beside its fields: its body, and who sent it."""

import json

from starlette.requests import Request

from stepagent.api.body import MAX_BODY_BYTES
from stepagent.api.keys import Caller, caller_in
from stepagent.errors import BodyTooLarge
from stepagent.runs import Principal

NO_BUFFERING = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # what a stream asks of whoever passes it on


async def body_of(request: Request) -> bytes:
    """The body, read no further than the limit.

    Raises:
        BodyTooLarge: it goes on behind that.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge(f"The body has more than {MAX_BODY_BYTES} bytes, which is the limit.")
    return body


def caller_of(request: Request) -> Caller:
    """Who calls, as API Gateway's authorizer found; the Web Adapter passes its context in this header."""
    [context] = request.headers.getlist("x-amzn-request-context")  # a second one would be the client's
    return caller_in(json.loads(context.encode("latin-1"))["authorizer"])  # as it came: names may be in any script


def principal_of(request: Request) -> Principal:
    return caller_of(request).principal
