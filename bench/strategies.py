"""What a plan costs and saves beside working step by step: ten tasks of known shape, each done in both ways.

One script answers both, so that either way does the same work (bench/tasks.py). What a plan takes on top are the calls
that make it, look at it and answer from it, and a run for each part; what it saves is what its parts need not read.
Which way a real model does better with is nothing that a script can tell.
"""

import json
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.progress import Steps
from bench.stack import ME, measured_stack, require_answer
from bench.tasks import TASKS, Script, Task, question
from stepagent.agents import Strategy
from stepagent.api.catalog import put_row
from stepagent.api.content import ChatMessage
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.api.requests import ChatRequest
from stepagent.api.service import read_run, say
from stepagent.delegation import sub_run_of
from stepagent.executions import execution_status
from stepagent.rows import RowKey
from stepagent.runs import Call, Run, RunKey
from stepagent.store.conversation import load_history
from tests.local_loop import LocalLoop
from tests.scripted_model import ScriptedModel

RUNS, QUICK_RUNS = 2, 1
_LONGEST_S = 300


class Way(NamedTuple):
    """A way of working, and the agent that is asked for it."""

    name: str
    strategy: Strategy
    review: str = "on_failure"

    @property
    def agent(self) -> str:
        return f"bench_{self.review}"


WAYS = (
    Way("step by step", "react"),
    Way("by a plan", "plan"),
    Way("by a plan, looked at after each round", "plan", "always"),
)


class Done(NamedTuple):
    """What one run took, with those that it began."""

    calls: int  # of the model
    input_tokens: int
    output_tokens: int
    entries: int
    seconds: float


def measure(quick: bool, steps: Steps) -> dict[str, Any]:
    """What each task takes in each way."""
    runs = QUICK_RUNS if quick else RUNS
    script = Script(0.01, 0.001) if quick else Script()
    done: dict[tuple[str, str], list[Done]] = {}
    with ScriptedModel(default=script) as model, measured_stack(model.base_url) as loop:
        _put_agents()
        _do(loop, model, TASKS[0], WAYS[1], "warm")
        steps.expect(runs * len(TASKS) * len(WAYS))
        for run in range(runs):
            for task in TASKS:
                for way in WAYS:
                    steps.begin(f"run {run + 1} of {runs}: {task.name}, {way.name}")
                    done.setdefault((task.name, way.name), []).append(_do(loop, model, task, way, f"run {run}"))
    rows = [{"task": task, "way": way, **_summary(each)} for (task, way), each in done.items()]
    pace = {"first_token_s": script.first_token_s, "each_token_s": script.each_token_s}
    return {"runs": runs, "pace": pace, "ways": [way.name for way in WAYS], "rows": rows}


def _put_agents() -> None:
    for review in sorted({way.review for way in WAYS}):
        row = {"instructions": "Use the calculator.", "tools": ["calculator"], "plan": {"review": review}}
        key, caller = RowKey("agent", f"bench_{review}"), Caller(ME, frozenset({"catalog"}))
        put_row(key, json.dumps(row).encode(), Precondition("", ""), caller)


def _do(loop: LocalLoop, model: ScriptedModel, task: Task, way: Way, name: str) -> Done:
    asked = [ChatMessage(role="user", content=question(task))]
    session, before = f"{name} {task.name} {way.name}", len(model.requests)
    request = ChatRequest(model=way.agent, messages=asked, session_id=session, strategy=way.strategy)
    run = _ended(say(request, ME).run)
    require_answer(run)
    assert run.ended_at
    took_s = (run.ended_at - run.created_at).total_seconds()
    usage = run.usage
    return Done(len(model.requests) - before, usage.input_tokens, usage.output_tokens, _entries(loop, run), took_s)


def _ended(run: Run) -> Run:
    """The run when its execution has ended."""
    deadline = time.monotonic() + _LONGEST_S
    while run.ended_at is None or execution_status(run) == "RUNNING":
        if time.monotonic() > deadline:
            raise TimeoutError(f"{run.run_id} did not end within {_LONGEST_S} s")
        time.sleep(0.05)
        run = read_run(run.run_id, run.owner)
    return run


def _entries(loop: LocalLoop, run: Run) -> int:
    """State entries of a run and of those that it began. The emulator lists none inside a Map: a step has one there."""
    if run.strategy != "plan":
        return loop.state_entries(run.run_id)
    arn = f"{loop.stack.plan_state_machine_arn.replace(':stateMachine:', ':execution:')}:{run.run_id}"
    pages = loop.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=arn)
    own: int = sum(event["type"].endswith("StateEntered") for page in pages for event in page["events"])
    steps = [RunKey.parse(sub_run_of(run.key, call.key)).run_id for call in _calls(run)]
    return own + sum(1 + loop.state_entries(step) for step in steps)


def _calls(run: Run) -> list[Call]:
    return [entry for entry in load_history(run.key.session) if isinstance(entry, Call)]


def _summary(done: Sequence[Done]) -> dict[str, Any]:
    """What is the same in each run, and the median of the time.

    Raises:
        RuntimeError: runs of one task took different calls, tokens or states, so that the script does not hold.
    """
    exact = {each._replace(seconds=0) for each in done}
    if len(exact) != 1:
        raise RuntimeError(f"runs of one task differ: {sorted(exact)}")
    seconds = [each.seconds for each in done]
    facts = done[0]._asdict()
    return facts | {"seconds": round(statistics.median(seconds), 2), "longest_s": round(max(seconds), 2)}


def lines(result: dict[str, Any]) -> list[str]:
    return [
        f"strategies {row['task']}, {row['way']}: {row['calls']} model calls, {row['input_tokens']} +"
        f" {row['output_tokens']} tokens, {row['entries']} state entries, {row['seconds']:.1f} s"
        for row in result["rows"]
    ]
