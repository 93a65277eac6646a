"""Lets containers reach the emulator, which listens on this machine's loopback address alone."""

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_OF_ONE_CONNECTION = {"host", "connection", "content-length", "transfer-encoding", "expect", "keep-alive"}


class Relay:
    """Passes each request on as it came, under the name that the emulator answers to."""

    def __init__(self, target: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._client = httpx.AsyncClient(base_url=target, timeout=60, trust_env=False, transport=transport)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await self._client.request(
            request.method,
            f"{scope['raw_path'].decode('latin-1')}?{scope['query_string'].decode('latin-1')}".removesuffix("?"),
            content=await request.body(),
            headers=_passed_on(request.headers.raw),
        )
        response = Response(answer.content, answer.status_code)
        response.raw_headers = [*_passed_on(answer.headers.raw), (b"content-length", _length(answer))]
        await response(scope, receive, send)


def _passed_on(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.decode("latin-1").lower() not in _OF_ONE_CONNECTION]


def _length(answer: httpx.Response) -> bytes:
    """Of an answer to HEAD, which has no content, the length that it tells."""
    told = answer.headers.get("content-length") if answer.request.method == "HEAD" else None
    return (told or str(len(answer.content))).encode()
