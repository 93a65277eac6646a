"""Calls of one turn run at the same time."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.runs import finish, function_named, probe
from tests.local_loop import LocalLoop
from tests.processes import cpu_s, linux_only, processes_of
from tests.scripted_model import Reply, ScriptedModel

TEN_CALLS = Reply(calls=tuple(probe("sleep", str(number), 0.2) for number in range(10)))


@pytest.fixture
def turn_s(loop: LocalLoop, model: ScriptedModel, probed: Path) -> Callable[[], float]:
    """Runs ten calls that sleep 200 ms: the seconds from the reply that asks for them to the request with results."""

    def run() -> float:
        moments: list[float] = []

        def noted(reply: Reply) -> Callable[[object], Reply]:
            def answer(request: object) -> Reply:
                moments.append(time.monotonic())
                return reply

            return answer

        model.script(noted(TEN_CALLS), noted(Reply(text="done")))
        assert finish(loop, "sleep").status == "completed"
        asked, answered = moments
        return answered - asked

    return run


def test_ten_calls_that_sleep_200_ms_take_less_than_a_second(turn_s: Callable[[], float]) -> None:
    turn_s()  # starts their processes
    assert min(turn_s() for _ in range(3)) < 1  # 0.35 s where nothing else runs; 2 s, one after the other


@linux_only
def test_new_process_of_a_function_costs_less_than_a_quarter_of_a_second(
    loop: LocalLoop, turn_s: Callable[[], float]
) -> None:
    end_processes(loop, "tool_probe")
    before = processes_of(loop.emulator)
    turn_s()
    new = set(processes_of(loop.emulator)).difference(before)
    assert len(new) >= 10
    assert max(map(cpu_s, new)) < 0.25  # 0.1 s; a program takes 0.6 s


def end_processes(loop: LocalLoop, function: str) -> None:
    """A change of its configuration ends a function's processes."""
    functions, name = loop.client("lambda"), function_named(loop, function)
    environment = functions.get_function_configuration(FunctionName=name)["Environment"]
    functions.update_function_configuration(FunctionName=name, Environment=environment)
