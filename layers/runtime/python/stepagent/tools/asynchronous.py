"""What async tools return, waited for on the process's one event loop: a client made in one call serves the next."""

import asyncio
import atexit
from collections.abc import AsyncIterator, Awaitable
from functools import cache
from typing import Any

from stepagent.tools.plain import MAX_ITEMS


def wait_for(value: Awaitable[Any] | AsyncIterator[Any]) -> Any:
    """What an awaitable comes to, or the items of an async generator, one more at most than are rendered."""
    return _loop().run(_collected(value) if isinstance(value, AsyncIterator) else _awaited(value))


@cache
def _loop() -> asyncio.Runner:
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _collected(items: AsyncIterator[Any]) -> Any:
    collected = []
    async for item in items:
        collected.append(item)
        if len(collected) > MAX_ITEMS:
            break
    return iter(collected)
