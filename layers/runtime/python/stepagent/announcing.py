"""What is told of questions to people: to who follows the run that asks or the one at the top, then once to others."""

import json
from typing import Any

from stepagent.interactions import Interaction
from stepagent.journal import Journal, shown
from stepagent.notifying import notify
from stepagent.questions import in_words

_MAX_ARGUMENTS_CHARS = 20_000  # of a call, in an event
_NOT_IN_EVENTS = frozenset({"top", "answer", "history"})


def view(interaction: Interaction) -> dict[str, Any]:
    """An interaction as its owner may see it: the fields of its question beside those of all, and `text`, in words."""
    common = interaction.model_dump(mode="json", exclude={"owner", "question"})
    return {**common, **interaction.question.model_dump(mode="json"), "text": in_words(interaction.question)}


def announce_question(interaction: Interaction) -> None:
    """Tells what is asked. Arguments or a plan too long for an event are null there; the interaction has them."""
    told = {name: value for name, value in view(interaction).items() if name not in _NOT_IN_EVENTS}
    for name in {"arguments", "bound", "plan"} & set(told):
        told[name] = told[name] if len(json.dumps(told[name])) <= _MAX_ARGUMENTS_CHARS else None
    for place in interaction.places:
        with Journal(place.run_id) as journal:
            journal.emit("interaction.required", **{**told, **place.model_dump()})
    notify("Interaction Required", interaction)


def announce_reminder(interaction: Interaction) -> None:
    """Tells that a question still waits."""
    told = {"interaction_id": interaction.interaction_id, "expires_at": interaction.expires_at.isoformat()}
    for place in interaction.places:
        with Journal(place.run_id) as journal:
            journal.emit("interaction.reminder", **told, **place.model_dump())
    notify("Interaction Reminder", interaction)


def announce_resolved(interaction: Interaction, text: str | None = None, *, is_error: bool = False) -> None:
    """Tells that a question is open no more; with `text`, that this is the result of the call that asked."""
    for place in interaction.places:
        with Journal(place.run_id) as journal:
            resolved = {"interaction_id": interaction.interaction_id, "status": interaction.status}
            journal.emit("interaction.resolved", **resolved, **place.model_dump())
            if text is not None and place == interaction.call:
                completed = {"id": interaction.call_id, "name": interaction.tool, "text": shown(text)}
                journal.emit("tool.completed", **completed, is_error=is_error)
    notify("Interaction Resolved", interaction)
