"""The target of the schedules of reminders: tells once more that a question waits for a person, if it still does."""

from typing import Any

from pydantic import BaseModel

from stepagent.observe import observed
from stepagent.reminders import remind
from stepagent.runs import InteractionId


class DueReminder(BaseModel):
    interaction_id: InteractionId
    number: int


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    due = DueReminder.model_validate(event)
    remind(due.interaction_id, due.number)
    return {}
