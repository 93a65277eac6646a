"""A soak is that of its seed, and its model checks what it is told."""

from typing import Any

import pytest

from tests.scripted_replies import Fault
from tests.soak.faults import Faults, Rates
from tests.soak.script import BrokenConversation, reply_to
from tests.soak.tasks import Task, make_task, make_tasks

SEED = 1
TASK = next(task for task in make_tasks(SEED, 100) if task.kind == "tools")


def said(role: str, content: str = "", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def conversation(*results: tuple[int, str], task: Task = TASK) -> dict[str, Any]:
    """A task, its first two calls, and results: of which of them, and what."""
    calls = [{"id": f"call-{number}", "function": {"name": "charge", "arguments": "{}"}} for number in range(2)]
    told = [said("tool", text, tool_call_id=f"call-{number}") for number, text in results]
    return {"messages": [said("user", task.question), said("assistant", tool_calls=calls), *told]}


def written(number: int) -> str:
    return TASK.written(TASK.parts[number])


def test_model_goes_on_with_the_last_part_when_the_first_two_are_there() -> None:
    reply = reply_to(conversation((0, written(0)), (1, written(1))), SEED)
    assert reply.calls == (("charge", {"value": written(2)}),)


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ([(0, "x")], "call-1 have no result"),
        ([(0, "x"), (1, "x"), (1, "x")], "call-1 has a result too many"),
        ([(0, "x"), (7, "x")], "call-7 has a result too many"),
        ([(0, "n999.a=1"), (1, "x")], "results of n999 are told to"),
    ],
)
def test_model_takes_no_conversation_that_a_provider_would_refuse_or_that_is_anothers(
    results: list[tuple[int, str]], why: str
) -> None:
    with pytest.raises(BrokenConversation, match=why):
        reply_to(conversation(*results), SEED)


def test_faults_of_the_model_never_come_twice_in_a_row_and_are_those_of_the_seed() -> None:
    def faults(seed: int) -> list[bool]:
        faults, reply = Faults(seed, Rates(model=0.5)), reply_to(conversation((0, ""), (1, "")), SEED)
        answers = [[faults.disturb(turn, f"turn {turn}", reply) for _ in range(2)] for turn in range(50)]
        assert all(second == reply for _, second in answers)
        return [isinstance(first, Fault) for first, _ in answers]

    assert faults(1) == faults(1) != faults(2)


def test_faults_that_a_task_met_are_kept_and_no_other_tasks() -> None:
    faults = Faults(SEED, Rates(model=1))
    faults.disturb(7, "turn", reply_to(conversation((0, ""), (1, "")), SEED))
    assert (faults.met(7), faults.met(8)) == (frozenset(faults.counts), frozenset())


def test_task_is_that_of_its_seed_and_number() -> None:
    assert make_tasks(SEED, 10)[7] == make_task(SEED, 7) != make_task(SEED + 1, 7)
