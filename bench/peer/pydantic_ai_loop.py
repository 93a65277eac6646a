"""pydantic-ai, streamed. It keeps nothing itself: the messages are written to a file when a question is answered."""

import asyncio
import os
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from bench.peer.serving import INSTRUCTIONS, multiply, serve


def calculator(expression: str) -> str:
    """Calculate an arithmetic expression."""
    return multiply(expression)


async def listen(_: Any, events: AsyncIterable[Any]) -> None:
    """Reads what is streamed."""
    async for _event in events:
        pass


def main() -> None:
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(os.environ["OPENAI_BASE_URL"], api_key="none"))
    agent = Agent(model, instructions=INSTRUCTIONS, tools=[calculator])
    no_limit = UsageLimits(request_limit=None)
    with asyncio.Runner() as runner:

        def ask(session: str, question: str) -> str:
            file = Path(f"{session}.json")
            history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else None
            running = agent.run(question, message_history=history, usage_limits=no_limit, event_stream_handler=listen)
            result = runner.run(running)
            file.write_bytes(result.all_messages_json())
            return str(result.output)

        serve(ask)


if __name__ == "__main__":
    main()
