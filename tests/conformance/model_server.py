"""The models of all cases behind one port: each case has a path of its own, so that none gets another's replies."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.conformance.wire import Asked, Script, Wire


class ModelServer:
    """Serves `scripts` by their names on 127.0.0.1, as a context manager."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        app = Starlette(routes=[Route("/{name}/v1/chat/completions", self._respond, methods=["POST"])])
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[self._socket]), daemon=True)

    def base_url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/{name}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.002)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=5)
        self._socket.close()

    async def _respond(self, http: Request) -> Response:
        raw = await http.body()
        script = self.scripts.get(http.path_params["name"])
        if script is None:
            return JSONResponse({"error": {"message": "no such case"}}, 404)
        wire = script.answer(Asked(time.monotonic(), raw, json.loads(raw)))
        if wire.headers.get("content-type") != "text/event-stream":
            await asyncio.sleep(sum(part.pause_s for part in wire.parts))
            return Response(b"".join(part.content for part in wire.parts), wire.status, _dated(wire.headers))
        return StreamingResponse(_content(wire), wire.status, wire.headers)


def _dated(headers: Mapping[str, str]) -> dict[str, str]:
    """`now+3` in a header stands for the HTTP date three seconds ahead, or a little more: dates have no fractions."""
    ahead = {name: re.fullmatch(r"now ?\+ ?(\d+) ?s?", value) for name, value in headers.items()}
    times = {name: datetime.now(UTC) + timedelta(seconds=int(found[1]) + 1) for name, found in ahead.items() if found}
    return {**headers, **{name: format_datetime(time, usegmt=True) for name, time in times.items()}}


async def _content(wire: Wire) -> AsyncIterator[bytes]:
    for part in wire.stream():
        await asyncio.sleep(part.pause_s)
        yield part.content
    if wire.reset:
        raise ConnectionAbortedError("broken off by the script")
