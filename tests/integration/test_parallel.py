"""Calls of one turn run at the same time."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.runs import finish, function_named, probe
from tests.local_loop import LocalLoop
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


def test_ten_calls_that_sleep_200_ms_take_little_longer_when_each_needs_a_new_process(
    loop: LocalLoop, turn_s: Callable[[], float]
) -> None:
    def cold_turn_s() -> float:
        end_processes(loop, "tool_probe")
        return turn_s()

    assert min(cold_turn_s() for _ in range(3)) < 2  # 0.9 s where nothing else runs


def end_processes(loop: LocalLoop, function: str) -> None:
    """A change of its configuration ends a function's processes."""
    functions, name = loop.client("lambda"), function_named(loop, function)
    environment = functions.get_function_configuration(FunctionName=name)["Environment"]
    functions.update_function_configuration(FunctionName=name, Environment=environment)
