"""A whole soak: the tasks, so many at once, while things go wrong; then the verdict on each."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.local_loop import LocalLoop
from tests.processes import memory_mb, processes_of
from tests.soak.bounds import beyond, never_came
from tests.soak.clocks import count_clocks
from tests.soak.disturbing import disturbed
from tests.soak.faults import Faults
from tests.soak.stack import Soaked, soaked_stack
from tests.soak.tasks import Task, make_tasks
from tests.soak.traffic import Traffic
from tests.soak.verdict import Verdict, judge

_LOOK_S = 2  # to measure memory often would take what is measured
_SETTLE_S = 60  # in which executions end whose runs have


@dataclass(frozen=True)
class Plan:
    """How much, how many at once, and until when a run that has not ended counts as lost."""

    runs: int
    at_once: int
    patience_s: float


@dataclass(frozen=True)
class Report:
    """What came of it."""

    plan: Plan
    took_s: float
    memory_mb: float
    faults: dict[str, int]
    verdicts: Sequence[Verdict]
    wrong: Sequence[str]  # beside those of single tasks
    waiting_on: Sequence[str]  # executions that run on behind runs that have ended, and in which state

    @property
    def statuses(self) -> dict[str, int]:
        return dict(Counter(verdict.status for verdict in self.verdicts))

    @property
    def lost(self) -> list[str]:
        """Also executions that wait behind ended runs: what they wait for never comes."""
        return [*(what for verdict in self.verdicts for what in verdict.lost), *self.waiting_on]

    @property
    def duplicated(self) -> list[str]:
        return [what for verdict in self.verdicts for what in verdict.duplicated]

    @property
    def all_wrong(self) -> list[str]:
        wrong = [what for verdict in self.verdicts for what in verdict.wrong]
        return [*wrong, *self.wrong, *beyond(self.verdicts, self.faults)]

    @property
    def never_came(self) -> list[str]:
        return never_came(self.faults, len(self.verdicts))

    @property
    def passed(self) -> bool:
        return not (self.lost or self.duplicated or self.all_wrong or self.never_came)


class Progress:
    """How far a soak is, for whoever shows it."""

    def __init__(self, faults: Faults, total: int) -> None:
        self.faults, self.total = faults, total
        self.begun = self.ended = 0


def soak(folder: Path, plan: Plan, faults: Faults, show: Callable[[Progress], None] = lambda _: None) -> Report:
    """Soaks the product. `show` is called every two seconds, in a thread of its own."""
    tasks = make_tasks(faults.seed, plan.runs)
    with soaked_stack(folder, faults) as stack:
        outputs = _outputs(stack.loop)
        traffic = Traffic(stack, faults, outputs["IngestQueueUrl"])
        progress, peak = Progress(faults, len(tasks)), [0.0]
        began = time.monotonic()
        with _while_it_goes_on(lambda: _look(stack, peak, progress, show)):
            with disturbed(stack, traffic, faults):
                _play(traffic, tasks, plan, progress)
            waiting_on = _settled(stack.loop)
        took_s = time.monotonic() - began
        effects = Counter(stack.effects.read_text().splitlines())
        with ThreadPoolExecutor(8) as pool:
            verdicts = list(pool.map(lambda task: judge(task, effects, faults.met(task.number)), tasks))
        counts = {**faults.counts, **count_clocks(stack.clocks)}
        wrong = [*traffic.wrong, *stack.broken]
    return Report(plan, took_s, peak[0], counts, verdicts, wrong, waiting_on)


def _play(traffic: Traffic, tasks: Sequence[Task], plan: Plan, progress: Progress) -> None:
    deadline = time.monotonic() + plan.patience_s
    lock = threading.Lock()

    def play(task: Task) -> None:
        with lock:
            progress.begun += 1
        traffic.play(task, deadline)
        with lock:
            progress.ended += 1

    with ThreadPoolExecutor(plan.at_once) as pool:
        list(pool.map(play, tasks))


def _settled(loop: LocalLoop) -> list[str]:
    """The executions that run on after a while, and what each has entered last."""
    client, deadline = loop.client("stepfunctions"), time.monotonic() + _SETTLE_S
    machines = (loop.stack.state_machine_arn, loop.stack.plan_state_machine_arn)
    while True:
        running = [execution for arn in machines for execution in _running(client, arn)]
        if not running or time.monotonic() > deadline:
            return [f"{each['name']} waits in {_last_state(client, each['executionArn'])}" for each in running]
        time.sleep(0.5)


def _running(client: Any, arn: str) -> list[Any]:
    found: list[Any] = client.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]
    return found


def _last_state(client: Any, arn: str) -> str:
    events = client.get_execution_history(executionArn=arn, maxResults=1000)["events"]
    names = [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]
    return names[-1] if names else "no state"


def _outputs(loop: LocalLoop) -> dict[str, str]:
    outputs = loop.client("cloudformation").describe_stacks(StackName="stepagent")["Stacks"][0]["Outputs"]
    return {output["OutputKey"]: output["OutputValue"] for output in outputs}


def _look(stack: Soaked, peak: list[float], progress: Progress, show: Callable[[Progress], None]) -> None:
    peak[0] = max(peak[0], memory_mb(processes_of(stack.loop.emulator)))
    show(progress)


@contextmanager
def _while_it_goes_on(act: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def loop() -> None:
        while not over.wait(_LOOK_S):
            act()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
