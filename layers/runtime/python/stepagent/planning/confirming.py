"""Whether a person lets a plan be carried out: what they said of it, and how the run goes on with that. Pure."""

from collections.abc import Sequence
from typing import Literal

from stepagent.messages import Message
from stepagent.models import Frozen
from stepagent.planning.plan import PlannedStep
from stepagent.runs import Call, Failure, Run

_CODE = "plan_not_confirmed"


class Confirmation(Frozen):
    """A person's decision about a plan: `steps` to take the place of those that are open, a `reason` for the model."""

    decision: Literal["approve", "edit", "reject"]
    steps: tuple[PlannedStep, ...] = ()
    reason: str = ""


def read_confirmation(run: Run, turn: int, entries: Sequence[Message | Call]) -> Confirmation | Failure | None:
    """What came of the question that the turn before asked; None where it asked none."""
    asked = [entry for entry in entries if isinstance(entry, Call) and entry.kind == "plan"]
    call = next((call for call in asked if call.key[:2] == (run.key.ordinal, turn - 1)), None)
    if call is None:
        return None
    if call.result is None or call.result.is_error:
        why = call.result.text if call.result else "Nobody could be asked."
        return Failure(code=_CODE, message=f"The plan was not confirmed. {why}")
    return Confirmation.model_validate_json(call.result.text)
