"""Notes that an agent keeps of a session. They stand in one item, which bounds them and needs no permission to list."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from stepagent.clock import now
from stepagent.messages import CallId
from stepagent.models import Frozen
from stepagent.runs import CallKey, SessionKey
from stepagent.store.items import notes_key
from stepagent.store.table import Refused, apply, change, get

# All of a session's notes, with every character escaped, stay below the 400 KB of an item.
MAX_NOTES, MAX_NOTE_CHARS, MAX_TOPIC_CHARS = 50, 1_000, 60


class Note(Frozen):
    """What an agent wants to know again, under a word that it chose."""

    text: Annotated[str, Field(max_length=MAX_NOTE_CHARS)]
    topic: Annotated[str, Field(max_length=MAX_TOPIC_CHARS)] = ""
    written_at: datetime = Field(default_factory=now)


def add_note(session: SessionKey, call_id: CallId, note: Note) -> bool:
    """Keeps the note of a call, however often the call is repeated; False where the session has as many as it may."""
    added = change(
        notes_key(session),
        f"SET #{call_id} = :note ADD #count :one",
        f"attribute_not_exists(#{call_id}) AND (attribute_not_exists(#count) OR #count < :most)",
        {":note": note.model_dump_json(), ":one": 1, ":most": MAX_NOTES},
    )
    try:
        apply(added)
    except Refused as refused:
        return call_id in refused.item
    return True


def load_notes(session: SessionKey) -> list[Note]:
    """The session's notes in the order in which its calls were made."""
    item = get(notes_key(session)) or {}
    written = sorted((CallKey.parse(name), text) for name, text in item.items() if name.startswith("call_"))
    return [Note.model_validate_json(text) for _, text in written]
