"""Streams that show that they live while nothing happens."""

import asyncio
from collections.abc import AsyncIterator

from stepagent.api.shapes import KEEP_ALIVE

KEEP_ALIVE_S = 15  # proxies and clients give up on a connection on which nothing comes for a minute or so


async def kept_alive(parts: AsyncIterator[bytes], every_s: float = KEEP_ALIVE_S) -> AsyncIterator[bytes]:
    """The parts as they come, and a comment whenever none has come for so long, whatever the reason is."""
    coming = asyncio.ensure_future(anext(parts))
    try:
        while True:
            await asyncio.wait({coming}, timeout=every_s)
            if not coming.done():
                yield KEEP_ALIVE
                continue
            try:
                part = coming.result()
            except StopAsyncIteration:
                return
            yield part
            coming = asyncio.ensure_future(anext(parts))
    finally:
        coming.cancel()
