"""Changes of a plan: what a model or a person says of it, applied whole or not at all. Pure."""

from collections.abc import Sequence

from pydantic import ConfigDict, Field

from stepagent.models import Frozen
from stepagent.planning.plan import (
    MAX_STEPS,
    OPEN,
    Description,
    Plan,
    PlanFlaw,
    PlannedStep,
    Step,
    StepId,
    StepStatus,
    Title,
    Why,
    checked,
)


class PlanDraft(Frozen):
    """A whole plan as a model writes it."""

    model_config = ConfigDict(extra="ignore")

    steps: tuple[PlannedStep, ...]


class StepChange(Frozen):
    """What shall be otherwise of a step; what is left out stays as it is."""

    model_config = ConfigDict(extra="ignore")

    id: StepId
    title: Title | None = None
    description: Description | None = None
    depends_on: tuple[StepId, ...] | None = Field(None, max_length=MAX_STEPS)


class PlanUpdate(Frozen):
    """A change of a plan, and why. With nothing to add, change or skip the plan stays as it is."""

    model_config = ConfigDict(extra="ignore")

    why: Why = ""
    add: tuple[PlannedStep, ...] = Field((), max_length=MAX_STEPS)
    change: tuple[StepChange, ...] = Field((), max_length=MAX_STEPS)
    skip: tuple[StepId, ...] = Field((), max_length=MAX_STEPS)

    @property
    def is_empty(self) -> bool:
        return not (self.add or self.change or self.skip)


def updated(plan: Plan, update: PlanUpdate, max_steps: int) -> Plan:
    """The plan with all of these changes; a step that is changed may fail once more before it is blocked.

    Raises:
        PlanFlaw: one of them cannot be made, so none is; the message names the step.
    """
    if update.is_empty:
        return plan
    changes = {change.id: change for change in update.change}
    for field, ids in (("change", [each.id for each in update.change]), ("skip", list(update.skip))):
        for index, step_id in enumerate(ids):
            _require_open(plan, step_id, field, index)
            if step_id in ids[:index] or (field == "skip" and step_id in changes):
                raise PlanFlaw(f"step {step_id!r} is named twice", field, index)
    kept = [_changed(step, changes[step.id]) if step.id in changes else step for step in plan.steps]
    left = plan.with_steps(kept).marked(StepStatus.SKIPPED, map(plan.step, update.skip))
    whole = left.with_steps((*left.steps, *map(Step.of, update.add)))
    return checked(whole.model_copy(update={"revision": plan.revision + 1}), max_steps)


def replaced(plan: Plan, planned: Sequence[PlannedStep], max_steps: int) -> Plan:
    """The plan with these steps in place of those that are still open.

    Raises:
        PlanFlaw: it cannot be carried out.
    """
    kept = [step for step in plan.steps if step.status not in OPEN]
    try:
        whole = plan.with_steps((*kept, *map(Step.of, planned)))
        return checked(whole.model_copy(update={"revision": plan.revision + 1}), max_steps)
    except PlanFlaw as flaw:  # who wrote them knows their places, not those of the steps before
        match flaw.path:
            case ("steps", int(index), *rest) if index >= len(kept):
                flaw.path = ("steps", index - len(kept), *rest)
        raise


def _require_open(plan: Plan, step_id: str, field: str, index: int) -> None:
    status = next((step.status for step in plan.steps if step.id == step_id), None)
    if status is None:
        raise PlanFlaw(f"there is no step {step_id!r}; nothing was changed", field, index)
    if status not in OPEN:
        raise PlanFlaw(f"step {step_id!r} is {status} and stays as it is; nothing was changed", field, index)


def _changed(step: Step, change: StepChange) -> Step:
    """A new start for the step."""
    return Step.of(step.model_copy(update=change.model_dump(exclude_none=True)))
