"""The clients of a soak try again where a server fails, ever more slowly, and give up at the deadline."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.soak.faults import Faults, Rates
from tests.soak.tasks import make_task
from tests.soak.traffic import Traffic

TASK = make_task(1, 7)


class Clock:
    """A clock that only sleep moves. Stands for `time`."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock


def traffic(answer: Any) -> Traffic:
    """Clients of a server that answers so, who have 100 seconds."""
    http = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://127.0.0.1")
    loop = SimpleNamespace(client=lambda _: None)
    stack: Any = SimpleNamespace(loop=loop, http=http, effects=Path())
    clients = Traffic(stack, Faults(1, Rates()), "queue")
    clients._deadline = 100
    return clients


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody listens", request=request)


@pytest.mark.parametrize("answer", [refuse, lambda _: httpx.Response(502)])
def test_client_waits_twice_as_long_each_time_up_to_a_bound_when_no_answer_comes(answer: Any, clock: Clock) -> None:
    clients = traffic(answer)
    assert clients._post(TASK, "/runs", {}) is None
    assert clock.slept == [1, 2, 4, 8, 16, 16, 16, 16, 16, 16]
    assert clients.wrong == [f"{TASK.label}: POST /runs was not answered"]


def test_client_takes_the_answer_that_comes_behind_a_broken_connection(clock: Clock) -> None:
    answers: list[Exception | httpx.Response] = [
        httpx.ConnectError("nobody listens"),
        httpx.Response(500),
        httpx.Response(202, json={"run_id": "r"}),
    ]

    def answer_next(request: httpx.Request) -> httpx.Response:
        answer = answers.pop(0)
        if isinstance(answer, httpx.Response):
            return answer
        raise answer

    clients = traffic(answer_next)
    answer = clients._post(TASK, "/runs", {})
    assert answer is not None
    assert (answer.status_code, clock.slept, clients.wrong) == (202, [1, 2], [])
