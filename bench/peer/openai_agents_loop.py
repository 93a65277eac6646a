"""openai-agents, streamed, with its SQLiteSession in a file: the items of a conversation are written while it runs."""

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from bench.peer.serving import INSTRUCTIONS, multiply, serve

MAX_TURNS = 50


def calculator(expression: str) -> str:
    """Calculate an arithmetic expression."""
    return multiply(expression)


def main() -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="none")
    model = OpenAIChatCompletionsModel(model="scripted", openai_client=client)
    agent = Agent(name="bench", instructions=INSTRUCTIONS, tools=[function_tool(calculator)], model=model)
    sessions: dict[str, SQLiteSession] = {}

    async def ask(session: str, question: str) -> str:
        kept = sessions.setdefault(session, SQLiteSession(session, "sessions.db"))
        result = Runner.run_streamed(agent, question, session=kept, max_turns=MAX_TURNS)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    with asyncio.Runner() as runner:
        serve(lambda session, question: runner.run(ask(session, question)))


if __name__ == "__main__":
    main()
