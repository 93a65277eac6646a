"""Fifty streams at once on the local stack: how long a delta takes from the model to the client.

The model writes into each delta when it sends it; the client compares that with when it reads it. Both clocks are this
machine's. Model, functions, emulator, front door and client share its cores, so the figures are an upper bound. The
emulator lets ten calls of a function run at once (local/turns.py): all streams are open, and ten models speak.
"""

import asyncio
import json
import os
import re
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from bench.progress import Steps
from bench.serving import serving
from local.turns import MOST_OF_ONE
from tests.local_loop import forget, front_door, local_loop

STREAMS, QUICK_STREAMS = 50, 10
DELTAS = 40
EVERY_MS = 100
_STAMP = re.compile(r"<(\d+\.\d+)>")


def measure(quick: bool, steps: Steps) -> dict[str, Any]:
    """Milliseconds from the model to the client, over all deltas of all streams."""
    streams = QUICK_STREAMS if quick else STREAMS
    steps.expect(3)
    steps.begin("the stack starts")
    with (
        patch.dict(os.environ),
        _stamping_model(DELTAS, EVERY_MS / 1000) as base_url,
        local_loop(base_url) as loop,
        front_door(loop) as client,
    ):
        url = f"{client.base_url}chat/completions"
        steps.begin("functions start, connections open")
        asyncio.run(_read_all(url, min(10, streams)))
        steps.begin(f"{streams} streams of {DELTAS} deltas")
        began = time.perf_counter()
        took = asyncio.run(_read_all(url, streams))
        wall_s = time.perf_counter() - began
    forget()
    return {"wall_s": round(wall_s, 1), **_summary(took)}


@contextmanager
def _stamping_model(deltas: int, every_s: float) -> Iterator[str]:
    """A model that says when it speaks."""

    async def say(_: Request) -> StreamingResponse:
        return StreamingResponse(_stamps(deltas, every_s), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", say, methods=["POST"])])
    with serving(app) as url:
        yield f"{url}/v1"


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


def _summary(streams: list[list[float]]) -> dict[str, Any]:
    in_ms = sorted(1000 * each for took in streams for each in took)
    return {
        "streams": len(streams),
        "complete": sum(len(took) == DELTAS for took in streams),
        "deltas": len(in_ms),
        "speaking": MOST_OF_ONE,
        "median_ms": round(statistics.median(in_ms), 1),
        "p95_ms": round(statistics.quantiles(in_ms, n=20)[-1], 1),
        "max_ms": round(in_ms[-1], 1),
    }


def lines(result: dict[str, Any]) -> list[str]:
    return [
        f"model to client: median {result['median_ms']:.0f} ms, 95 of 100 within {result['p95_ms']:.0f} ms, the slowest"
        f" {result['max_ms']:.0f} ms; {result['complete']} of {result['streams']} streams complete,"
        f" {result['speaking']} models speak at once"
    ]
