"""Fifty streams at once on the local stack: how long a delta takes from the model to the client.

    python -m bench.streams [--streams 50] [--deltas 40] [--every-ms 100]

The model writes into each delta when it sends it; the client compares that with when it reads it. Both clocks are this
machine's. Model, functions, emulator, front door and client share its cores, so the figures are an upper bound. The
emulator lets ten calls of a function run at once (local/turns.py): all streams are open, and ten models speak.
"""

import argparse
import asyncio
import json
import re
import statistics
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from local.door_process import free_port
from local.turns import MOST_OF_ONE
from tests.local_loop import front_door, local_loop

WANTED_MS = 250
_STAMP = re.compile(r"<(\d+\.\d+)>")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=50, help="at once")
    parser.add_argument("--deltas", type=int, default=40, help="of each stream")
    parser.add_argument("--every-ms", type=int, default=100, help="between two deltas")
    given = parser.parse_args()
    with (
        _stamping_model(given.deltas, given.every_ms / 1000) as base_url,
        local_loop(base_url) as loop,
        front_door(loop) as client,
    ):
        url = f"{client.base_url}chat/completions"
        asyncio.run(_read_all(url, min(10, given.streams)))  # functions start, connections open
        began = time.perf_counter()
        streams = asyncio.run(_read_all(url, given.streams))
        _report(streams, given.deltas, time.perf_counter() - began)


@contextmanager
def _stamping_model(deltas: int, every_s: float) -> Iterator[str]:
    """A model that says when it speaks."""

    async def say(_: Request) -> StreamingResponse:
        return StreamingResponse(_stamps(deltas, every_s), media_type="text/event-stream")

    port = free_port(0)
    app = Starlette(routes=[Route("/v1/chat/completions", say, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.should_exit = True
        thread.join()


async def _stamps(deltas: int, every_s: float) -> AsyncIterator[str]:
    for _ in range(deltas):
        yield _chunk({"content": f"<{time.time():.6f}>"})
        await asyncio.sleep(every_s)
    yield _chunk({}, "stop")
    yield "data: [DONE]\n\n"


def _chunk(delta: dict[str, str], finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return f"data: {json.dumps({'id': 'c', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"


async def _read_all(url: str, streams: int) -> list[list[float]]:
    """For each stream the seconds that its deltas took; a stream that did not complete raises."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=120, trust_env=False, limits=limits) as client:
        return await asyncio.gather(*(_read(client, url) for _ in range(streams)))


async def _read(client: httpx.AsyncClient, url: str) -> list[float]:
    body = {"model": "assistant", "messages": [{"role": "user", "content": "Speak."}], "stream": True}
    took, line = [], ""
    async with client.stream("POST", url, json=body) as reply:
        reply.raise_for_status()
        async for each in reply.aiter_lines():
            line = each or line
            took += [time.time() - float(stamp) for stamp in _STAMP.findall(each)]
    if line != "data: [DONE]":
        raise RuntimeError(f"a stream ended with {line[:200]!r}")
    return took


def _report(streams: list[list[float]], deltas: int, wall_s: float) -> None:
    complete = sum(len(took) == deltas for took in streams)
    in_ms = sorted(1000 * each for took in streams for each in took)
    median, p95 = statistics.median(in_ms), statistics.quantiles(in_ms, n=20)[-1]
    print(f"{complete} of {len(streams)} streams complete in {wall_s:.1f} s, {len(in_ms)} deltas")
    print(f"all are open at once, and {MOST_OF_ONE} models speak at once")
    verdict = "below" if median < WANTED_MS else "NOT below"
    print(f"from model to client: median {median:.0f} ms, {verdict} {WANTED_MS} ms")
    print(f"95 of 100 within {p95:.0f} ms, the slowest {in_ms[-1]:.0f} ms")


if __name__ == "__main__":
    main()
