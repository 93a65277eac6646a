"""Both ways of working do the same work in the comparison, and its script keeps to the tasks."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.strategies import WAYS, Done, _summary, lines
from bench.tasks import TASKS, Script, Task, question
from stepagent.planning.plan import make_plan
from stepagent.planning.reading import read_as
from stepagent.planning.revising import PlanDraft
from stepagent.planning.words import MAKE_PLAN, REVIEW, answering
from tests.scripted_replies import Reply

SCRIPT = Script()


def asked(task: Task, *said: dict[str, Any]) -> Reply:
    return SCRIPT({"messages": [{"role": "user", "content": question(task)}, *said]})


def step_by_step(task: Task) -> Iterator[list[str]]:
    """The parts that are asked for in each turn, until there is an answer."""
    said: list[dict[str, Any]] = []
    while (reply := asked(task, *said)).calls:
        yield [expression(call) for call in reply.calls]
        said.append({"role": "assistant", "content": ""})


def expression(call: tuple[str, Any]) -> str:
    return str(call[1]["expression"])


def the_plan(task: Task) -> PlanDraft:
    return read_as(PlanDraft, asked(task, {"role": "user", "content": MAKE_PLAN}).text)


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_both_ways_ask_for_the_same_calls_in_the_same_layers(task: Task) -> None:
    plan = make_plan(the_plan(task).steps, 12)
    in_steps = []
    for step in plan.steps:
        told: list[dict[str, Any]] = [{"role": "user", "content": f"The step: {step.title}\n{question(task)}"}]
        while (reply := asked(task, *told)).calls:
            in_steps += [expression(call) for call in reply.calls]
            told.append({"role": "assistant", "content": ""})
    turns = list(step_by_step(task))
    assert sorted(in_steps) == sorted(call for turn in turns for call in turn)
    assert len(turns) == len(list(task.layers)) + bool(task.broken)


def test_plan_is_kept_when_it_is_looked_at_and_answered_from_in_the_end() -> None:
    task = TASKS[0]
    kept = asked(task, {"role": "user", "content": REVIEW.format(plan="x")})
    answered = asked(task, {"role": "user", "content": answering(make_plan(the_plan(task).steps, 12), question(task))})
    assert ('"add": []' in kept.text, answered.text) == (True, "Done.")


def test_tokens_grow_with_what_is_read() -> None:
    short, long = (asked(TASKS[0], {"role": "assistant", "content": "x" * chars}) for chars in (0, 400))
    assert long.usage[0] - short.usage[0] == 100


def test_ten_tasks_have_ten_shapes() -> None:
    assert len({(tuple(task.layers), task.broken) for task in TASKS}) == len({task.name for task in TASKS}) == 10


def test_figures_that_differ_between_runs_are_no_figures() -> None:
    with pytest.raises(RuntimeError, match="differ"):
        _summary([Done(2, 1, 1, 3, 0.1), Done(3, 1, 1, 3, 0.1)])


def test_time_is_the_median_of_the_runs() -> None:
    found = _summary([Done(2, 1, 1, 3, seconds) for seconds in (9.0, 0.1, 0.3)])
    assert (found["calls"], found["seconds"], found["longest_s"]) == (2, 0.3, 9.0)


def test_every_task_is_told_in_every_way() -> None:
    rows = [{"task": t.name, "way": w.name, **_summary([Done(2, 1, 1, 3, 0.1)])} for t in TASKS for w in WAYS]
    assert len(lines({"rows": rows})) == 30
