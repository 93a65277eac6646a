"""A soak finds what is wrong: the model that checks what it is told, and the verdict on a run."""

from typing import Any

import pytest

from stepagent.runs import RunStatus, StopReason
from tests.builders import a_run
from tests.scripted_replies import Fault
from tests.soak.faults import Faults, Rates
from tests.soak.script import BrokenConversation, reply_to
from tests.soak.tasks import Task, answer_of, make_task, make_tasks
from tests.soak.verdict import _wrong

SEED = 1
TASK = next(task for task in make_tasks(SEED, 100) if task.kind == "tools")
VALUES = {part.name: part.value for part in TASK.parts}


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
        answers = [[faults.disturb(f"turn {turn}", reply) for _ in range(2)] for turn in range(50)]
        assert all(second == reply for _, second in answers)
        return [isinstance(first, Fault) for first, _ in answers]

    assert faults(1) == faults(1) != faults(2)


def test_task_is_that_of_its_seed_and_number() -> None:
    assert make_tasks(SEED, 10)[7] == make_task(SEED, 7) != make_task(SEED + 1, 7)


CHARGED = {f"sleep {TASK.written(part)}": 1 for part in TASK.parts if part.way == "charge"}


@pytest.mark.parametrize(
    ("known", "effects", "finds"),
    [
        (VALUES, CHARGED, []),
        ({name: value for name, value in VALUES.items() if name != "a"}, CHARGED, []),  # it is said to be unknown
        (VALUES | {"a": 0}, CHARGED, [f"a is 0 and not {VALUES['a']}"]),
        (VALUES, {}, ["a is said to be charged, and is not", "c is said to be charged, and is not"]),
    ],
)
def test_verdict_finds_an_answer_that_says_what_is_not_so(
    known: dict[str, int], effects: dict[str, int], finds: list[str]
) -> None:
    run = a_run(status=RunStatus.COMPLETED, stop_reason=StopReason.ANSWERED, answer=answer_of(TASK, known))
    assert list(_wrong(TASK, run, known, effects)) == finds


def test_verdict_finds_an_answer_in_other_words() -> None:
    run = a_run(status=RunStatus.COMPLETED, stop_reason=StopReason.ANSWERED, answer="Done.")
    assert "the answer is 'Done.'" in list(_wrong(TASK, run, VALUES, CHARGED))
