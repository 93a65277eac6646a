"""The tool `recall`."""

from typing import Annotated, Any

from pydantic import Field

from stepagent.store.notes import Note, load_notes
from stepagent.tools import ToolContext, tool
from stepagent.tools.search import Index, Text


@tool
def handler(
    context: ToolContext,
    query: Annotated[str, Field(max_length=200, description="Words of the notes; empty for all of them.")] = "",
) -> dict[str, Any]:
    """Look up the notes that were kept in this conversation: all of them, or those with any word of the query."""
    notes = load_notes(context.session)
    return {"notes": _matching(notes, query) if query.strip() else notes, "total": len(notes)}


def _matching(notes: list[Note], query: str) -> list[Note]:
    index = Index(Text(note.topic, note.text) for note in notes)
    return [notes[position] for position in index.search(query, len(notes))]
