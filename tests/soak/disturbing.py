"""What happens to the stack meanwhile: processes of functions are killed, and functions are invoked a second time."""

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from stepagent.delegation import execution_name
from stepagent.executions import current_execution
from stepagent.runs import ENDED, Call, CallStatus, Run, RunId, RunKey
from stepagent.store.conversation import load_history
from stepagent.store.delegations import find_delegation
from stepagent.store.items import turn_key
from stepagent.store.runs import load_run
from stepagent.store.table import get
from tests.integration.runs import function_named
from tests.processes import processes_of
from tests.soak.faults import Faults
from tests.soak.stack import Soaked
from tests.soak.traffic import Traffic

_LOOK_S = 0.5
Invocation = tuple[str, str, dict[str, Any]]  # what is counted, the function's logical id, the payload


@contextmanager
def disturbed(stack: Soaked, traffic: Traffic, faults: Faults) -> Iterator[None]:
    """Within the block things go wrong, as often as the rates say."""
    over = threading.Event()
    again = Again(stack, traffic, faults)
    threads = [
        _every(_LOOK_S, faults.chance("kills"), over, lambda chance: _kill(stack, faults, chance)),
        _every(1 / faults.rates.invocations_per_s, faults.chance("again"), over, again.invoke),
    ]
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _every(
    mean_s: float, chance: random.Random, over: threading.Event, act: Callable[[random.Random], None]
) -> threading.Thread:
    """Acts at irregular times, so many seconds apart in the mean."""

    def loop() -> None:
        while not over.wait(chance.expovariate(1 / mean_s)):
            act(chance)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread


def _kill(stack: Soaked, faults: Faults, chance: random.Random) -> None:
    """Kills processes of functions of this stack, whatever they do; they are known by who forked them."""
    for pid in function_processes(stack):
        if chance.random() < faults.rates.kills_per_s * _LOOK_S:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                faults.count("process killed")


def function_processes(stack: Soaked) -> list[int]:
    """The children of the fork server, which is a child of the emulator: all are processes of functions."""
    emulator = stack.loop.emulator
    parents = {pid: _parent(pid) for pid in processes_of(emulator)}
    servers = {pid for pid, parent in parents.items() if parent == emulator.pid}
    return sorted(pid for pid, parent in parents.items() if parent in servers)


def _parent(pid: int) -> int | None:
    with suppress(OSError):  # it has just ended
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


class Again:
    """Invokes functions with what they were invoked with before, while their runs go on and when they have ended."""

    def __init__(self, stack: Soaked, traffic: Traffic, faults: Faults) -> None:
        self._traffic, self._faults = traffic, faults
        self._client = stack.loop.client("lambda")
        names = ("ThinkFunction", "tool_probe", "StartWorkflowFunction", "FinalizeFunction")
        self._functions = {name: function_named(stack.loop, name) for name in names}
        self._seen: list[RunId] = []

    def invoke(self, chance: random.Random) -> None:
        live = list(self._traffic.live.values())
        self._seen += set(live) - set(self._seen)
        choices = [*live, *chance.sample(self._seen, min(2, len(self._seen)))]
        run = load_run(RunKey.parse(chance.choice(choices))) if choices else None
        invocations = list(_invocations(run)) if run else []
        if not invocations:
            return
        kind, function, payload = chance.choice(invocations)
        self._faults.count(kind)
        with suppress(ClientError):  # it is busy, or its process was killed
            name = self._functions[function]
            self._client.invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps(payload))


def _invocations(run: Run) -> Iterator[Invocation]:
    """With what functions were invoked for this run: all of it may come again."""
    turn = run.turns + 1 if get(turn_key(run.key, run.turns + 1)) else run.turns
    if turn:
        machine = "plan" if run.strategy == "plan" else "agent"
        yield "turn invoked again", "ThinkFunction", {"run_id": run.run_id, "turn": turn, "machine": machine}
    for call in load_history(run.key.session):
        if isinstance(call, Call) and call.status is not CallStatus.PENDING:
            yield from _of_call(run, call)
    if run.status in ENDED:
        ended = {"name": current_execution(run), "status": "FAILED", "error": "Soaked"}
        yield "end told again", "FinalizeFunction", {"detail": ended}


def _of_call(run: Run, call: Call) -> Iterator[Invocation]:
    named = {"run_id": run.run_id, "call_id": call.call_id}
    if call.kind == "lambda":
        yield "call invoked again", "tool_probe", named
    elif call.is_run and (delegation := find_delegation(execution_name(run, call))):
        for token in delegation.task_tokens:
            yield "call of an agent invoked again", "StartWorkflowFunction", {**named, "task_token": token}
