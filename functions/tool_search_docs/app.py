"""The tool `search_docs`."""

from typing import Annotated

from library import find
from passages import Passage
from pydantic import Field

from stepagent.tools import ToolError, tool


@tool
def handler(
    query: Annotated[
        str, Field(min_length=1, max_length=300, description="What to look for, in words that its text would have.")
    ],
    limit: Annotated[int, Field(ge=1, le=10, description="How many passages to give at most.")] = 4,
) -> list[Passage]:
    """Search the documents. Gives the passages that fit best, each with its file and heading."""
    passages = find(query, limit)
    if not passages:
        raise ToolError("No passage has any of these words. Try other words for the same thing.")
    return passages
