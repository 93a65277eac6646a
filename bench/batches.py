"""What an input of a batch uses beside its run, and a batch beside its inputs, counted on the local stack.

Two batches of different sizes and some runs of the same question are carried out one after the other. What the larger
batch moves more is its further inputs'; less what the runs move, it is what an input adds to its run.
"""

import json
import os
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.counting import Counted, Counter
from bench.model import TimedModel, question
from bench.spans import Span
from bench.stack import AGENT, ME, wait_end
from stepagent.api.batch_requests import BatchRequest
from stepagent.api.batches import begin_batch
from stepagent.api.content import ChatMessage
from stepagent.api.keys import Caller
from stepagent.api.requests import ChatRequest
from stepagent.api.service import start_job
from stepagent.batches.executions import BatchExecutionName
from stepagent.batches.models import batch_key
from tests.local_loop import LocalLoop, forget
from tests.scripted_replies import Reply

FEW, MORE, QUICK_MORE = 1, 40, 10  # inputs of the small batch, and how many more the large one has
_LONGEST_S = 300
_TEXT = question(0, 0, "an input")
_CHILD_START = 1  # the price page does not say whether the start of a Map's child counts, so it is counted


class Moved(NamedTuple):
    """What was used of AWS, beside functions."""

    transitions: float
    read_units: float
    write_units: float
    s3_reads: float
    s3_writes: float


class BatchUsage(NamedTuple):
    """What an input uses beside its run, and a batch beside its inputs; of how many inputs the former is a mean."""

    inputs: int
    input: Moved
    batch: Moved


def count_batch(quick: bool, model: TimedModel, loop: LocalLoop, counter: Counter) -> BatchUsage:
    """Carries the batches and the runs out, on a stack that is quiet."""
    more = QUICK_MORE if quick else MORE
    # As fast as it can, whatever the pace of others: what a reply's parts cost is the runs', not the batch's.
    model.script_for(_TEXT, *[Reply(text="Done.")] * (3 * FEW + 2 * more))
    os.environ["BATCH_STATE_MACHINE_ARN"] = _machine(loop)  # the stack restores it
    forget()
    _run_batch(loop, "warm", FEW)  # so that processes know their catalog, as those of a busy stack do
    counter.wait_until_quiet()
    small = _window(counter, lambda: _run_batch(loop, "small", FEW))
    large = _window(counter, lambda: _run_batch(loop, "large", FEW + more))
    runs = _window(counter, lambda: _run_jobs(loop, more))
    return shares(small, large, runs, FEW, more)


def shares(small: Moved, large: Moved, runs: Moved, few: int, more: int) -> BatchUsage:
    """What is an input's and what the batch's, of batches of `few` and of `more` inputs more, and of `more` runs."""
    whole = [(b - a) / more for a, b in zip(small, large, strict=True)]
    beside = [each - run / more for each, run in zip(whole, runs, strict=True)]
    rest = [a - few * each for a, each in zip(small, whole, strict=True)]
    return BatchUsage(more, Moved(*(round(each, 2) for each in beside)), Moved(*(round(each, 2) for each in rest)))


def moved(counted: Sequence[Counted], transitions: int) -> Moved:
    operations = Tally(each.operation for each in counted)
    return Moved(
        transitions=transitions,
        read_units=sum(each.read_units for each in counted),
        write_units=sum(each.write_units for each in counted),
        s3_reads=operations["S3 GET"] + operations["S3 HEAD"],
        s3_writes=operations["S3 PUT"],
    )


def _window(counter: Counter, act: Callable[[], int]) -> Moved:
    """What was moved until all is quiet again; `act` tells how many states were entered."""
    began = time.time()
    transitions = act()
    counter.wait_until_quiet()
    return moved(counter.within(Span(began, time.time())), transitions)


def _run_batch(loop: LocalLoop, name: str, inputs: int) -> int:
    """Its inputs one after the other: at once, they would start processes that know no catalog yet."""
    asked = BatchRequest(agent=AGENT, batch_id=name, inputs=[_TEXT] * inputs, max_concurrency=1)
    begin_batch(asked, Caller(ME))
    machine = _machine(loop).replace(":stateMachine:", ":execution:")
    execution = f"{machine}:{BatchExecutionName(batch_key(ME, name), 1)}"
    executions, deadline = loop.client("stepfunctions"), time.monotonic() + _LONGEST_S
    while (status := executions.describe_execution(executionArn=execution)["status"]) == "RUNNING":
        if time.monotonic() > deadline:
            raise TimeoutError(f"the batch {name} did not end within {_LONGEST_S} s")
        time.sleep(0.05)
    if status != "SUCCEEDED":
        raise RuntimeError(f"the batch {name} ended {status}")
    return _entries(executions, execution) + inputs * (_CHILD_START + _child_states(loop))


def _entries(executions: Any, execution: str) -> int:
    pages = executions.get_paginator("get_execution_history").paginate(executionArn=execution)
    return sum(event["type"].endswith("StateEntered") for page in pages for event in page["events"])


def _child_states(loop: LocalLoop) -> int:
    """How many states a child of the Map passes: all that it has. The emulator lists no events of children."""
    described = loop.client("stepfunctions").describe_state_machine(stateMachineArn=_machine(loop))
    [inputs] = [state for state in json.loads(described["definition"])["States"].values() if state["Type"] == "Map"]
    return len(inputs["ItemProcessor"]["States"])


def _run_jobs(loop: LocalLoop, runs: int) -> int:
    """Their own state entries are not counted, as those of the inputs' runs are not."""
    asked = ChatRequest(model=AGENT, messages=[ChatMessage(role="user", content=_TEXT)])
    for number in range(runs):
        wait_end(loop, start_job(asked, ME, f"beside a batch {number}").run_id)
    return 0


def _machine(loop: LocalLoop) -> str:
    machines = loop.client("stepfunctions").list_state_machines()["stateMachines"]
    [arn] = [each["stateMachineArn"] for each in machines if each["name"].endswith("-batch")]
    return str(arn)
