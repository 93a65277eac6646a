"""What the runtime itself costs a turn: the wall time of runs on the local stack, less what model and tools took.

    python -m bench.overhead [--runs 9]

The model is scripted (tests/scripted_model.py): it asks for k calls in each of n turns, then answers. Its time is
measured in the same process and taken off; the tool is the calculator, whose own work is below a millisecond.
Functions run as processes on the emulator, warm, with the corrections that local/corrections.py names. Whatever else
this machine does at the same time makes the figures worse, so they come with its load.
"""

import argparse
import os
import re
import statistics
import time
from typing import Any

from openai import OpenAI

from stepagent.api.content import ChatMessage
from stepagent.api.requests import ChatRequest
from stepagent.api.service import read_run, say
from stepagent.runs import Principal, Run
from tests.local_loop import LocalLoop, local_loop
from tests.scripted_model import Reply, ScriptedModel

CALLS = (0, 1, 3, 10)
TURNS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="counted runs of each shape, after one that warms up")
    runs = parser.parse_args().runs
    with ScriptedModel(default=_script) as model, local_loop(model.base_url) as loop:
        model_s = _time_model(model.base_url)
        print(f"scripted model: {model_s * 1000:.1f} ms a request, taken off; load {os.getloadavg()[0]:.1f} before")
        for calls in CALLS:
            _report(calls, runs, model_s, loop)


def _script(request: dict[str, Any]) -> Reply:
    """Asks for k calls until n turns are done; k and n stand in the question."""
    roles = [message["role"] for message in request["messages"]]
    question = request["messages"][len(roles) - 1 - roles[::-1].index("user")]["content"]
    turns, calls = (int(number) for number in re.findall(r"\d+", question))
    done = roles.count("assistant")
    if done >= turns:
        return Reply(text="Done.")
    return Reply(calls=tuple(("calculator", {"expression": f"{done}*{call}"}) for call in range(calls)))


def _time_model(base_url: str) -> float:
    """Median seconds that one streamed request takes from a warm client."""
    provider, seconds = OpenAI(base_url=base_url, api_key="none"), []
    for _ in range(50):
        began = time.perf_counter()
        message: Any = {"role": "user", "content": "turns 1 calls 1"}
        list(provider.chat.completions.create(model="scripted", messages=[message], stream=True))
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _report(calls: int, runs: int, model_s: float, loop: LocalLoop) -> None:
    turns = TURNS if calls else 0
    walls, run = [], None
    for _ in range(runs + 1):
        run = _run(turns, calls, loop)
        assert run.ended_at is not None
        walls.append((run.ended_at - run.created_at).total_seconds())
    assert run is not None
    requests = turns + 1
    overhead_ms = [(wall - requests * model_s) / requests * 1000 for wall in walls[1:]]
    expected = turns * (3 + 2 * calls) + 3
    print(
        f"overhead per turn k={calls}: {statistics.median(overhead_ms):.0f} ms"
        f"  (min {min(overhead_ms):.0f}, max {max(overhead_ms):.0f}; {requests} turns, {runs} runs)"
        f"  state entries: {loop.state_entries(run.run_id)} = {turns} x (3 + 2 x {calls}) + 3 = {expected}"
    )


def _run(turns: int, calls: int, loop: LocalLoop) -> Run:
    text = f"turns {turns} calls {calls}"
    request = ChatRequest(model="assistant", messages=[ChatMessage(role="user", content=text)])
    run = say(request, Principal("bench")).run
    while run.ended_at is None:
        time.sleep(0.05)  # what looks more often takes part in what is measured
        run = read_run(run.run_id, run.owner)
    loop.wait_end(run.run_id)  # its execution ends a moment later
    return run


if __name__ == "__main__":
    main()
