"""A hundred runs at once on the local stack: all end, nothing is lost or done twice, and memory stays bounded."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from local.emulator import Emulator
from local.turns import MOST
from stepagent.api.service import read_run
from stepagent.runs import Run
from stepagent.store.journal import LAST_EVENTS, Event, read_events
from tests import probe
from tests.integration.runs import ME, begin
from tests.integration.runs import probe as call
from tests.local_loop import LocalLoop, forget, local_loop
from tests.processes import linux_only, memory_mb, processes_of
from tests.scripted_model import Reply, ScriptedModel

RUNS = 100
CALLS = 2
MOST_MB = 1000
MOST_S = 60

pytestmark = linux_only


@dataclass
class Peak:
    """The most that a stack took at a time."""

    memory_mb: float = 0
    processes: int = 0


@dataclass(frozen=True)
class Hundred:
    """What came of a hundred runs that began at once."""

    runs: Mapping[str, Run]  # by their question
    journals: Sequence[Sequence[Event]]
    effects: Sequence[str]  # one line for each time that the tool ran
    took_s: float
    peak: Peak


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hundred]:
    log = tmp_path_factory.mktemp("effects") / "runs.log"
    log.touch()
    root = probe.lay_out(tmp_path_factory.mktemp("product"))
    with (
        ScriptedModel(default=call_then_answer) as model,
        patch.dict(os.environ),
        local_loop(model.base_url, root=root, PROBE_LOG=str(log)) as loop,
    ):
        began = time.monotonic()
        with watched(loop.emulator) as peak:
            runs = run_at_once(loop, [f"question {number}" for number in range(RUNS)])
        took_s = time.monotonic() - began
        journals = [read_events(run.run_id, 0) for run in runs.values()]
        yield Hundred(runs, journals, log.read_text().splitlines(), took_s, peak)
    forget()


def call_then_answer(request: dict[str, Any]) -> Reply:
    """Keeps no state: all it needs stands in the request."""
    question = next(message["content"] for message in request["messages"] if message["role"] == "user")
    if request["messages"][-1]["role"] == "tool":
        return Reply(text=f"answer to {question}")
    return Reply(calls=tuple(call("sleep", f"{question}, call {number}", 0.05) for number in range(CALLS)))


def run_at_once(loop: LocalLoop, questions: Sequence[str]) -> dict[str, Run]:
    with ThreadPoolExecutor(len(questions)) as pool:
        begun = [following.run.run_id for following in pool.map(begin, questions)]
    for run_id in begun:
        loop.wait_end(run_id)
    return {question: read_run(run_id, ME) for question, run_id in zip(questions, begun, strict=True)}


@contextmanager
def watched(emulator: Emulator) -> Iterator[Peak]:
    """Looks four times a second at what the stack takes."""
    peak, enough = Peak(), threading.Event()

    def look() -> None:
        while not enough.wait(0.25):
            processes = processes_of(emulator)
            peak.processes = max(peak.processes, len(processes))
            peak.memory_mb = max(peak.memory_mb, memory_mb(processes))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield peak
    finally:
        enough.set()
        watching.join()


def test_each_run_answers_its_own_question(hundred: Hundred) -> None:
    answers = {question: (run.status, run.answer) for question, run in hundred.runs.items()}
    assert answers == {question: ("completed", f"answer to {question}") for question in hundred.runs}


def test_each_call_has_its_effect_once(hundred: Hundred) -> None:
    expected = [f"sleep {question}, call {number}" for question in hundred.runs for number in range(CALLS)]
    assert Counter(hundred.effects) == Counter(expected)


def test_no_journal_has_lost_an_event(hundred: Hundred) -> None:
    for journal in hundred.journals:
        assert [event.n for event in journal] == list(range(1, len(journal) + 1))
        assert [event.n for event in journal if event.type in LAST_EVENTS] == [len(journal)]
        told = Counter((event.type, event.data["id"]) for event in journal if event.type.startswith("tool."))
        ids = [f"call_1_1_{number}" for number in range(CALLS)]
        assert told == Counter((type_, id_) for type_ in ("tool.started", "tool.completed") for id_ in ids)


def test_stack_stays_under_a_gigabyte_and_ends_them_within_a_minute(
    hundred: Hundred, capsys: pytest.CaptureFixture[str]
) -> None:
    peak = hundred.peak
    with capsys.disabled():
        print(f"\n{RUNS} runs at once: {hundred.took_s:.1f} s, {peak.memory_mb:.0f} MB in {peak.processes} processes")
    assert peak.processes <= MOST + 2
    assert peak.memory_mb < MOST_MB
    assert hundred.took_s < MOST_S
