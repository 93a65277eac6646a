"""What events tell of a plan and of its steps."""

from typing import Any, NamedTuple

from stepagent.planning.plan import Plan, Step, StepStatus


class StepNews(NamedTuple):
    """A step that begins, as `in_progress`, or that stands otherwise after an attempt, with what came of that."""

    step_id: str
    title: str
    status: StepStatus
    attempt: int = 0
    text: str = ""


def read_plan(told: dict[str, Any]) -> Plan:
    """The plan as `plan.created` and `plan.updated` tell it."""
    return Plan(revision=told["revision"], steps=tuple(map(Step.model_validate, told["steps"])))


def step_begun(data: dict[str, Any]) -> StepNews:
    """What `step.started` tells."""
    return StepNews(data["id"], data["title"], StepStatus.IN_PROGRESS, data["attempt"])


def step_over(data: dict[str, Any]) -> StepNews:
    """What `step.completed` tells."""
    return StepNews(data["id"], data["title"], StepStatus(data["status"]), text=data["text"])
