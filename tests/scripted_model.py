"""A scripted stand-in for an OpenAI-compatible chat-completions server, for tests and benchmarks only.

No model answers here: each request gets the next reply of a script. The server listens on 127.0.0.1 alone, keeps every
request body, and is as slow, cut off or faulty as its script says. As a process, where it asks for the calculator and
then answers: `python -m tests.scripted_model --port 9000`.
"""

import argparse
import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.scripted_replies import Answer, Body, Fault, Json, Pace, Raw, Reply, Step, chunks, completion

__all__ = ["Body", "Fault", "Raw", "Reply", "ScriptedModel", "calculate_then_answer"]


class ScriptedModel:
    """A server with a script, as a context manager.

    `requests` holds the request bodies in the order of arrival, `queries` their query strings. Without a `default`, a
    request beyond the end of the script is answered with 500 "script exhausted". A stopped server does not start again.
    """

    def __init__(self, default: Step | None = None, port: int = 0) -> None:
        self.default = default
        self.requests: list[Json] = []
        self.queries: list[str] = []
        self._queues: dict[str, deque[Step]] = {}
        self._socket = socket.create_server(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for an ACK
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        app = Starlette(routes=[Route("/v1/chat/completions", self._respond, methods=["POST"])])
        # log_config=None leaves the loggers of the tests alone; a cut is an error that uvicorn would print
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=self.serve, daemon=True)

    def script(self, *replies: Step) -> None:
        """Appends replies for the requests that no key of `script_for` claims."""
        self.script_for("", *replies)

    def script_for(self, key: str, *replies: Step) -> None:
        """Appends replies for the requests whose last user message contains `key`; of several keys the longest wins."""
        self._queues.setdefault(key, deque()).extend(replies)

    def reset(self) -> None:
        """Forgets the scripts, the default and the requests; the server runs on."""
        self.default = None
        self._queues.clear()
        self.requests.clear()
        self.queries.clear()

    def serve(self) -> None:
        """Answers in the calling thread until it is stopped."""
        self._server.run(sockets=[self._socket])

    def start(self) -> Self:
        """Answers in a thread of its own; returns when connections are accepted."""
        self._thread.start()
        while not self._server.started:
            time.sleep(0.002)
        return self

    def stop(self) -> None:
        """Ends the server and with it every open stream."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=5)
        self._socket.close()

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _respond(self, http: Request) -> Response:
        self.requests.append(request := await http.json())
        self.queries.append(http.url.query)
        step = self._next_step(request)
        return await _response(step(request) if callable(step) else step, request, len(self.requests))

    def _next_step(self, request: Json) -> Step:
        said = str(next((m["content"] for m in reversed(request["messages"]) if m["role"] == "user"), ""))
        key = max((key for key in self._queues if key in said), key=len, default="")
        if queue := self._queues.get(key):
            return queue.popleft()
        exhausted = {"message": f"script exhausted: request {len(self.requests)}, key {key!r}"}
        return self.default or Fault(500, body={"error": exhausted})


def calculate_then_answer(calls: int) -> Step:
    """A model that asks for the calculator `calls` times, one call a turn, and then answers; it keeps no state."""

    def answer(request: Json) -> Answer:
        roles = [message["role"] for message in request["messages"]]
        turn = roles[::-1].index("user") if "user" in roles else len(roles)
        done = sum(role in ("tool", "function") for role in roles[len(roles) - turn :])
        ask = Reply(calls=(("calculator", {"expression": f"{done + 1}*23"}),))
        return ask if done < calls else Reply(text="Done.")

    return answer


async def _response(answer: Answer, request: Json, number: int) -> Response:
    if isinstance(answer, Fault):
        if isinstance(answer.body, str):
            return HTMLResponse(answer.body, answer.status, answer.headers)
        return JSONResponse(answer.body, answer.status, answer.headers)
    if request.get("stream"):
        return StreamingResponse(_events(answer, request, number), media_type="text/event-stream")
    if isinstance(answer, Raw):
        return JSONResponse({"error": {"message": "a Raw reply needs stream=true"}}, 500)
    await asyncio.sleep(answer.first_delay_s if isinstance(answer, Reply) else 0)
    return JSONResponse(completion(answer, number))


async def _events(answer: Reply | Raw | Body, request: Json, number: int) -> AsyncIterator[str]:
    pace = Pace() if isinstance(answer, Body) else answer
    await asyncio.sleep(pace.first_delay_s)
    for sent, data in enumerate(_data(answer, request, number)):
        if sent == pace.cut_after_chunks:
            raise ConnectionAbortedError("cut by the script")  # the server closes the connection mid-body
        while sent == pace.stall_after_chunks:
            yield ": stalled\n\n"
            await asyncio.sleep(0.05)
        await asyncio.sleep(pace.delay_s_per_chunk)
        yield f"data: {data}\n\n"


def _data(answer: Reply | Raw | Body, request: Json, number: int) -> Iterator[str]:
    include_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    yield from map(json.dumps, chunks(answer, number, include_usage))
    if not isinstance(answer, Raw) or answer.done:
        yield "[DONE]"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Scripted chat-completions server; no model answers.")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--calls", type=int, default=1, help="calculator calls before the answer")
    options = parser.parse_args()
    ScriptedModel(calculate_then_answer(options.calls), options.port).serve()
