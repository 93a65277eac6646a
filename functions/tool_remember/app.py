"""The tool `remember`."""

from typing import Annotated

from pydantic import Field

from stepagent.store.notes import MAX_NOTE_CHARS, MAX_NOTES, MAX_TOPIC_CHARS, Note, add_note
from stepagent.tools import ToolContext, ToolError, tool


@tool
def handler(
    note: Annotated[str, Field(min_length=1, max_length=MAX_NOTE_CHARS, description="One fact, complete in itself.")],
    context: ToolContext,
    topic: Annotated[str, Field(max_length=MAX_TOPIC_CHARS, description="A word to find it by.")] = "",
) -> str:
    """Keep a note for later in this conversation, such as a wish or a decision of the user."""
    if not add_note(context.session, context.call_id, Note(text=note, topic=topic)):
        raise ToolError(f"This conversation has {MAX_NOTES} notes, which is as many as it may have.")
    return "Noted."
