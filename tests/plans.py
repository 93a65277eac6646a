"""Plans with whatever a test does not care about filled in, and what models say of them."""

import json
from collections.abc import Iterable

from stepagent.messages import CallId
from stepagent.planning.plan import Plan, PlannedStep, StepStatus, make_plan

CALL = CallId("call_1_1_0")


def a_step(step_id: str, *depends_on: str) -> PlannedStep:
    return PlannedStep(id=step_id, title=f"Title {step_id}", description=f"Do {step_id}.", depends_on=depends_on)


DIAMOND = [a_step("a"), a_step("b", "a"), a_step("c", "a"), a_step("d", "b", "c"), a_step("e", "d")]


def a_plan(*ids: str) -> Plan:
    """A plan of steps that do not depend on one another."""
    return make_plan([a_step(step_id) for step_id in ids], 20)


def done(plan: Plan, *ids: str) -> Plan:
    return plan.marked(StepStatus.DONE, map(plan.step, ids))


def written(steps: Iterable[PlannedStep]) -> str:
    """The plan as a model writes it."""
    return json.dumps({"steps": [step.model_dump(mode="json") for step in steps]})
