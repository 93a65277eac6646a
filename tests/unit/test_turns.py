"""Turns of calls that run at the same time."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from local.turns import Turns

SOON_S = 0.05


class Call:
    """A call in a thread of its own, which runs until it is told to end."""

    def __init__(self, turns: Turns, function: str, runs: Callable[[], None] = lambda: None) -> None:
        self.began = threading.Event()
        self._may_end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(turns, function, runs), daemon=True)
        self._thread.start()
        time.sleep(0.005)  # so that calls come in the order in which a test makes them

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(2)

    def _run(self, turns: Turns, function: str, runs: Callable[[], None]) -> None:
        with turns.turn(function):
            self.began.set()
            runs()
            self._may_end.wait(5)


def began(*calls: Call) -> list[bool]:
    time.sleep(SOON_S)
    return [call.began.is_set() for call in calls]


def test_calls_run_at_once_when_there_is_room() -> None:
    turns = Turns(most=3, most_of_one=3)
    assert began(*[Call(turns, "a") for _ in range(3)]) == [True] * 3


def test_call_waits_when_as_many_run_as_may() -> None:
    turns = Turns(most=2, most_of_one=2)
    first, second, third = (Call(turns, name) for name in "abc")
    assert began(first, second, third) == [True, True, False]
    first.end()
    assert began(third) == [True]


def test_call_waits_and_others_pass_when_as_many_of_its_function_run_as_may() -> None:
    turns = Turns(most=3, most_of_one=1)
    calls = [Call(turns, name) for name in ("a", "a", "b")]
    assert began(*calls) == [True, False, True]


def test_turns_come_in_order_when_several_wait() -> None:
    turns = Turns(most=1, most_of_one=1)
    first, second, third = (Call(turns, "a") for _ in range(3))
    first.end()
    assert began(second, third) == [True, False]


def test_function_with_less_than_its_share_goes_first_when_several_wait() -> None:
    turns = Turns(most=4, most_of_one=4)
    busy = [Call(turns, "a") for _ in range(4)]
    waiting_a, waiting_b = Call(turns, "a"), Call(turns, "b")
    busy[0].end()
    assert began(waiting_a, waiting_b) == [False, True]


def test_function_takes_the_room_of_others_when_they_do_not_need_it() -> None:
    turns = Turns(most=4, most_of_one=4)
    calls = [Call(turns, name) for name in "baaa"]
    assert began(*calls) == [True] * 4


def test_functions_keep_their_shares_when_calls_of_all_wait() -> None:
    turns = Turns(most=4, most_of_one=4)
    busy = {name: [Call(turns, name), Call(turns, name)] for name in "ab"}
    waiting = {name: Call(turns, name) for name in "ba"}
    busy["a"][0].end()
    assert began(waiting["a"], waiting["b"]) == [True, False]


def test_room_is_kept_for_a_function_when_its_calls_found_none_just_now() -> None:
    turns = Turns(most=4, most_of_one=4, patience_s=1)
    busy = {name: [Call(turns, name), Call(turns, name)] for name in "ab"}
    waiting = {name: Call(turns, name) for name in "ab"}
    busy["a"][0].end()  # for the one that waits
    busy["a"][1].end()
    assert began(waiting["a"], waiting["b"]) == [True, False]
    assert waiting["b"].began.wait(3)  # no call of a came


def test_room_is_free_again_when_a_call_raises() -> None:
    turns = Turns(most=1, most_of_one=1)
    with pytest.raises(KeyError), turns.turn("a"):
        raise KeyError
    assert began(Call(turns, "a")) == [True]


def test_call_runs_at_once_when_it_may_not_wait() -> None:
    turns = Turns(most=1, most_of_one=1)
    running = Call(turns, "a")
    with turns.turn("a", at_once=True):
        waiting = Call(turns, "a")
        running.end()
        assert began(waiting) == [False]  # its room is taken
    assert began(waiting) == [True]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began_at = time.monotonic()
    yield
    assert time.monotonic() - began_at < seconds


def test_calls_that_wait_for_calls_get_them_when_all_room_is_theirs() -> None:
    turns = Turns(most=2, most_of_one=2, patience_s=0.1)

    def ask() -> None:
        with turns.turn("asked"):
            pass

    calls = [Call(turns, "asking", ask) for _ in range(6)]
    with within(2):
        for call in calls:
            call.end()
    assert began(*calls) == [True] * 6


def test_no_more_run_than_may_when_many_wait_long_and_calls_come_to_their_end() -> None:
    turns = Turns(most=1, most_of_one=1, patience_s=3)  # longer than a busy machine stands still
    running, most = 0, 0

    def run() -> None:
        nonlocal running, most
        with turns.turn("a"):
            running += 1
            most = max(most, running)
            time.sleep(0.07)
            running -= 1

    threads = [threading.Thread(target=run) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
