"""A plan as data: steps that depend on one another, which of them may run, and what became of them. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from stepagent.messages import CallId
from stepagent.models import Frozen

MAX_ATTEMPTS = 2  # of a step: one that failed is tried once more
MAX_STEPS = 20  # of a plan: so many references to calls stay under 4 KB of state
SHOWN_DESCRIPTION_CHARS = 300  # of a step, in an event or a question
_MAX_BYTES = 64_000  # of a plan, which stands in the item of its run
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # those that turn text round among them


class PlanFlaw(ValueError):
    """Why a plan, or a change of one, is not taken: half a sentence. `path` leads to the field that is wrong."""

    def __init__(self, why: str, *path: str | int) -> None:
        super().__init__(why)
        self.path = path


class StepStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    BLOCKED = "blocked"
    SKIPPED = "skipped"


_BEHIND = frozenset({StepStatus.DONE, StepStatus.SKIPPED})  # steps that nothing waits for any more
OPEN = frozenset({StepStatus.PENDING, StepStatus.BLOCKED})  # steps that can still be changed


def _in_one_line(given: Any) -> Any:
    """Steps are shown as lines of a list, which no title may forge. Models like to number steps."""
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return one_line(given) if isinstance(given, str) else given


def one_line(text: str) -> str:
    """The text with single spaces for all breaks, and without characters that drive a terminal."""
    return " ".join(_CONTROL.sub(" ", text).split())


StepId = Annotated[str, Field(min_length=1, max_length=40), BeforeValidator(_in_one_line)]
Title = Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(_in_one_line)]
Why = Annotated[str, AfterValidator(lambda text: one_line(text)[:SHOWN_DESCRIPTION_CHARS])]
Description = Annotated[str, Field(max_length=2_000)]


class PlannedStep(Frozen):
    """A step as a model or a person writes it down. What else they say of it has no meaning here."""

    model_config = ConfigDict(extra="ignore")

    id: StepId
    title: Title
    description: Description = ""
    depends_on: tuple[StepId, ...] = Field((), max_length=MAX_STEPS)


class Step(PlannedStep):
    """A step and how it stands. `call_id` is the call of its latest attempt, whose result is the step's."""

    status: StepStatus = StepStatus.PENDING
    attempt: int = 0
    call_id: CallId | None = None

    @property
    def heading(self) -> str:
        after = f" (after {', '.join(self.depends_on)})" if self.depends_on else ""
        return f"{self.id}. {self.title}{after}"

    @classmethod
    def of(cls, planned: PlannedStep) -> Self:
        return cls(**planned.model_dump(include=set(PlannedStep.model_fields)))


class Plan(Frozen):
    """The steps in the order in which they were written. `revision` counts from 1 and goes up when they change."""

    revision: int = 1
    steps: tuple[Step, ...]

    def step(self, step_id: str) -> Step:
        return next(step for step in self.steps if step.id == step_id)

    @property
    def ready(self) -> tuple[Step, ...]:
        """The steps that may run now: all that they depend on is behind them."""
        behind = {step.id for step in self.steps if step.status in _BEHIND}
        return tuple(
            step for step in self.steps if step.status is StepStatus.PENDING and behind.issuperset(step.depends_on)
        )

    def having(self, *statuses: StepStatus) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.status in statuses)

    def marked(self, status: StepStatus, steps: Iterable[Step]) -> "Plan":
        """The plan in which these steps have another status."""
        ids = {step.id for step in steps}
        return self.with_steps(
            step.model_copy(update={"status": status}) if step.id in ids else step for step in self.steps
        )

    def with_steps(self, steps: Iterable[Step]) -> "Plan":
        return self.model_copy(update={"steps": tuple(steps)})


def make_plan(planned: Sequence[PlannedStep], max_steps: int) -> Plan:
    """A first plan.

    Raises:
        PlanFlaw: it cannot be carried out.
    """
    return checked(Plan(steps=tuple(map(Step.of, planned))), max_steps)


def checked(plan: Plan, max_steps: int) -> Plan:
    """The plan, if it can be carried out: ids are unique, what steps depend on is there, and nothing goes in circles.

    Raises:
        PlanFlaw: it cannot; the message names the steps.
    """
    ids = [step.id for step in plan.steps]
    if not ids or len(ids) > max_steps:
        raise PlanFlaw(f"a plan has 1 to {max_steps} steps, and this one has {len(ids)}", "steps")
    if (size := len(plan.model_dump_json().encode())) > _MAX_BYTES:
        raise PlanFlaw(f"a plan has at most {_MAX_BYTES} bytes, and this one has {size}", "steps")
    for index, step in enumerate(plan.steps):
        if step.id in ids[:index]:
            raise PlanFlaw(f"two steps have the id {step.id!r}", "steps", index, "id")
        if unknown := [name for name in step.depends_on if name not in ids]:
            raise PlanFlaw(
                f"step {step.id!r} depends on {unknown[0]!r}, which is no step", "steps", index, "depends_on"
            )
    try:
        TopologicalSorter({step.id: step.depends_on for step in plan.steps}).prepare()
    except CycleError as error:
        circle = error.args[1]
        why = f"steps depend on one another in a circle: {' after '.join(map(repr, circle[::-1]))}"
        raise PlanFlaw(why, "steps", ids.index(circle[0]), "depends_on") from None
    return plan


def begun(plan: Plan, calls: Mapping[str, CallId]) -> Plan:
    """The plan in which these steps, by their ids, have begun, each with the call that carries it out."""
    return plan.with_steps(
        step.model_copy(
            update={"status": StepStatus.IN_PROGRESS, "attempt": step.attempt + 1, "call_id": calls[step.id]}
        )
        if step.id in calls
        else step
        for step in plan.steps
    )


def settled(plan: Plan, failed: Mapping[CallId, bool]) -> Plan:
    """The plan with what the calls of its steps came to; `failed` says so of each call that has a result."""
    return plan.with_steps(
        step.model_copy(update={"status": status_after(step.attempt, failed=failed[step.call_id])})
        if step.status is StepStatus.IN_PROGRESS and step.call_id and step.call_id in failed
        else step
        for step in plan.steps
    )


def status_after(attempt: int, *, failed: bool) -> StepStatus:
    """How a step stands after its n-th attempt."""
    if not failed:
        return StepStatus.DONE
    return StepStatus.PENDING if attempt < MAX_ATTEMPTS else StepStatus.BLOCKED


def in_lines(steps: Iterable[Step]) -> Iterator[str]:
    """Steps in words: a line each, and one below it with what it says of itself."""
    for step in steps:
        yield step.heading
        if step.description:
            yield f"   {one_line(step.description)[:SHOWN_DESCRIPTION_CHARS]}"
