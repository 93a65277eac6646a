"""Runs that wait for people cost nothing: no function runs and none is invoked, until an answer comes."""

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from stepagent.answering import answer
from stepagent.api.service import read_run
from stepagent.runs import RunId, RunStatus
from stepagent.store.journal import last_event
from stepagent.store.runs import require_run
from tests.integration.runs import ME, begin
from tests.local_loop import LocalLoop, local_loop
from tests.scripted_model import Reply, ScriptedModel

RUNS, ANSWERED, AT_ONCE = 200, 20, 4
LOOK_S = 3
BUSY_S = 0.1  # of CPU, by all functions together: what a handful of invocations takes
ASK = ("ask_user", {"question": "Which colour?"})


@pytest.fixture
def waiting_loop(model: ScriptedModel, restored_environment: None) -> Iterator[LocalLoop]:
    """A stack of its own, so that nobody else's runs are counted."""
    with ExitStack() as stack:
        yield stack.enter_context(local_loop(model.base_url))


def cpu_of_functions_s(loop: LocalLoop) -> dict[int, float]:
    """The processes below the emulator, which are those of functions, with the seconds of CPU that each has taken."""
    stats = {int(path.parent.name): fields for path in Path("/proc").glob("[0-9]*/stat") if (fields := stat_of(path))}

    def is_below(pid: int) -> bool:
        return pid in stats and (int(stats[pid][1]) == loop.emulator.pid or is_below(int(stats[pid][1])))

    ticks = os.sysconf("SC_CLK_TCK")
    return {pid: (int(fields[11]) + int(fields[12])) / ticks for pid, fields in stats.items() if is_below(pid)}


def stat_of(path: Path) -> list[str]:
    """The fields behind a process's name; none where it has ended meanwhile."""
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def told(runs: list[RunId]) -> int:
    """Events of all runs together: each function of the loop writes some."""
    last = [last_event(run_id) for run_id in runs]
    return sum(event.n for event in last if event)


def start(number: int) -> RunId:
    """A run that waits for a person."""
    run_id = begin(f"paint {number:03}", "assistant", session_id=f"wall {number}").run.run_id
    deadline = time.monotonic() + 30
    while require_run(run_id).status is not RunStatus.WAITING:
        assert time.monotonic() < deadline, f"{run_id} does not wait"
        time.sleep(0.05)
    return run_id


def test_runs_that_wait_cost_no_process_and_go_on_when_they_are_answered(
    waiting_loop: LocalLoop, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(RUNS):
        model.script_for(f"paint {number:03}", Reply(calls=(ASK,)), Reply(text=f"Done {number}."))
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(start, range(RUNS)))
    started_s = time.monotonic() - began
    time.sleep(0.5)  # the last ones write their logs

    before, asked, events = cpu_of_functions_s(waiting_loop), len(model.requests), told(runs)
    time.sleep(LOOK_S)
    after = cpu_of_functions_s(waiting_loop)
    idle_s = sum(after.values()) - sum(before.values())
    assert after.keys() == before.keys()
    assert idle_s < BUSY_S
    assert (len(model.requests), told(runs)) == (asked, events)  # none was invoked
    assert {require_run(run_id).status for run_id in runs} == {RunStatus.WAITING}

    answered = random.sample(range(RUNS), ANSWERED)
    began = time.monotonic()
    for number in answered:
        [question] = require_run(runs[number]).pending
        answer(question, ME, "blue")
    for number in answered:
        assert waiting_loop.wait_end(runs[number]) == "SUCCEEDED"
    ended_s = time.monotonic() - began
    assert sum(cpu_of_functions_s(waiting_loop).values()) - sum(after.values()) > BUSY_S  # so it would have shown
    assert [read_run(runs[number], ME).answer for number in answered] == [f"Done {number}." for number in answered]
    assert sum(require_run(run_id).status is RunStatus.WAITING for run_id in runs) == RUNS - ANSWERED
    with capsys.disabled():
        print(
            f"\n{RUNS} runs wait, started in {started_s:.1f} s; {len(after)} warm processes of functions took"
            f" {idle_s:.2f} s of CPU in {LOOK_S} s, none invoked; {ANSWERED} answered and ended in {ended_s:.1f} s"
        )
