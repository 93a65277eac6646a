"""A function of somebody else: it knows nothing of agents."""

from typing import Any


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    if event.get("fail"):
        raise ValueError("theirs is broken")
    return {"given": event}
