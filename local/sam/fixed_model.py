"""A model that always says the same, over OpenAI's protocol: runs end in a moment, and whoever asks knows how."""

import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ANSWER = "This is a fixed answer."


async def _complete(request: Request) -> Response:
    said = _chunk([{"index": 0, "delta": {"role": "assistant", "content": ANSWER}, "finish_reason": None}])
    ended = _chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    spent = _chunk([], usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
    lines = [*map(json.dumps, (said, ended, spent)), "[DONE]"]
    return Response("".join(f"data: {line}\n\n" for line in lines), media_type="text/event-stream")


def _chunk(choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    chunk = {"id": "fixed", "object": "chat.completion.chunk", "created": 0, "model": "fixed"}
    return {**chunk, "choices": choices, **more}


app = Starlette(routes=[Route("/chat/completions", _complete, methods=["POST"])])
