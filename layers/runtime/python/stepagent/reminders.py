"""Reminders of questions that nobody has answered yet: planned when a question is asked, told while it is open.

Nothing runs in between: a schedule of the service's own wakes a function, which looks at the record. A schedule that
fires behind the answer therefore does nothing, and none need be taken back.
"""

from collections.abc import Sequence
from datetime import timedelta

from stepagent.announcing import announce_reminder
from stepagent.clock import now
from stepagent.interactions import Interaction, InteractionStatus
from stepagent.notifying import schedule_reminder
from stepagent.runs import InteractionId
from stepagent.store.questions import load_question, note_reminder


def schedule_reminders(interaction: Interaction, after_s: Sequence[int]) -> None:
    """Plans the reminders of a question, in seconds from when it was asked; those that are past are left out."""
    for number, seconds in enumerate(after_s, 1):
        at = interaction.created_at + timedelta(seconds=seconds)
        if now() < at < interaction.expires_at:
            schedule_reminder(interaction.interaction_id, number, at)


def remind(question: InteractionId, number: int) -> bool:
    """Tells once more that a question waits; False where it does no longer, or this reminder was told before.

    A reminder is noted before it is told, so that the service, which may fire twice, reminds nobody twice.
    """
    found = load_question(question)
    if found is None or found.status is not InteractionStatus.PENDING or found.interaction.expires_at <= now():
        return False
    noted = note_reminder(question, number)
    if noted:
        announce_reminder(noted)
    return noted is not None
