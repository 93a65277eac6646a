"""What a plan costs and saves beside working step by step: ten tasks of known shape, each done in both ways.

One script answers both. It knows the parts of a task and which of them build on one another, asks for one tool call a
part, and asks for as many at once as it can: so either way does the same work. What a plan takes on top are the calls
that make it, look at it and answer from it, and a run for each part; what it saves is what its parts need not read.
Which way a real model does better with is nothing that a script can tell.
"""

import json
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from bench.model import ANSWER
from bench.progress import Steps
from bench.stack import ME, measured_stack, require_answer
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
from tests.scripted_replies import Json, Reply

RUNS, QUICK_RUNS = 2, 1
_TOKEN_CHARS = 4
_PLAN, _REVIEW, _ANSWER, _STEP = "Make the plan.", "Review it.", "Answer the person now", "The step: Part "
_LONGEST_S = 300


class Task(NamedTuple):
    """Parts by name, each with those that it builds on. The tool fails once for the part that is `broken`."""

    name: str
    parts: Mapping[str, Sequence[str]]
    broken: str = ""

    @property
    def layers(self) -> Iterator[tuple[str, ...]]:
        """The parts that can be done at the same time, one layer behind the other."""
        order = TopologicalSorter(self.parts)
        order.prepare()
        while order.is_active():
            ready = tuple(sorted(order.get_ready()))
            order.done(*ready)
            yield ready


def _chain(length: int, name: str = "abcdefgh") -> dict[str, Sequence[str]]:
    return {part: name[index - 1 : index] for index, part in enumerate(name[:length])}


def _at_once(count: int) -> dict[str, Sequence[str]]:
    return {part: () for part in "abcdefgh"[:count]}


_DIAMOND: dict[str, Sequence[str]] = {"a": "", "b": "a", "c": "a", "d": "bc", "e": "d"}

TASKS = (
    Task("one part", _chain(1)),
    Task("a chain of 3", _chain(3)),
    Task("a chain of 6", _chain(6)),
    Task("2 at once", _at_once(2)),
    Task("4 at once", _at_once(4)),
    Task("8 at once", _at_once(8)),
    Task("8 at once, then a sum", {**_at_once(8), "i": "abcdefgh"}),
    Task("a diamond of 5", _DIAMOND),
    Task("two chains of 3", {**_chain(3), **_chain(3, "uvw")}),
    Task("a diamond of 5, a tool fails once", _DIAMOND, broken="c"),
)
_BY_NAME = {task.name: task for task in TASKS}


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


@dataclass(frozen=True)
class Script:
    """A model that knows the tasks. It keeps no state, and counts tokens by characters."""

    first_token_s: float = 0.3
    each_token_s: float = 0.02

    def __call__(self, request: Json) -> Reply:
        said = [message for message in request["messages"] if message["role"] != "system"]
        last = max(index for index, message in enumerate(said) if message["role"] == "user")
        text, replies = str(said[last]["content"]), sum(message["role"] == "assistant" for message in said[last:])
        task = _BY_NAME[
            next(found[1] for message in said if (found := re.search("task: (.+)$", str(message["content"]), re.M)))
        ]
        read_chars = sum(map(_chars, request["messages"])) + len(json.dumps(request.get("tools", "")))
        return self._reply(read_chars, **_said(task, text, replies))

    def _reply(self, read_chars: int, **said: Any) -> Reply:
        written = said.get("text", "") + json.dumps(said.get("calls", ()))
        return Reply(
            **said,
            usage=(read_chars // _TOKEN_CHARS, len(written) // _TOKEN_CHARS),
            first_delay_s=self.first_token_s,
            delay_s_per_chunk=self.each_token_s,
            chunk_chars=_TOKEN_CHARS,
        )


def _chars(message: Json) -> int:
    """What a message says, without the ids of its calls, which are longer the more requests there were."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return len(str(message["content"] or "")) + sum(len(call["name"]) + len(call["arguments"]) for call in calls)


def question(task: Task) -> str:
    return f"Work out what there is to work out.\ntask: {task.name}"


def _said(task: Task, text: str, replies: int) -> dict[str, Any]:
    """What the model says to a text of the user, behind which it has given so many replies."""
    if text.startswith(_PLAN):
        return {"text": json.dumps({"steps": [_step(part, before) for part, before in task.parts.items()]})}
    if _REVIEW in text:
        return {"text": '{"why": "It goes well.", "add": [], "change": [], "skip": []}'}
    if _ANSWER in text:
        return {"text": ANSWER}
    if _STEP in text:
        part = text.partition(_STEP)[2][0]
        turns, closing = list(_turns([(part,)], task.broken)), f"Part {part} comes to 391."
    else:
        turns, closing = list(_turns(task.layers, task.broken)), ANSWER
    return {"calls": turns[replies]} if replies < len(turns) else {"text": closing}


def _turns(layers: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]], broken: str) -> Iterator[tuple[Any, ...]]:
    """The calls of each turn; one that fails is made again, rightly, in the next one."""
    for layer in layers:
        yield tuple(_call(part, "17*" if part == broken else "17*23") for part in layer)
        if broken in layer and broken:
            yield (_call(broken, "17*23"),)


def _call(part: str, expression: str) -> tuple[str, dict[str, str]]:
    return "calculator", {"expression": f"{expression}+0*{ord(part)}"}


def _step(part: str, before: Sequence[str]) -> dict[str, Any]:
    described = f"Multiply 17 by 23 for part {part}, with the calculator."
    return {"id": part, "title": f"Part {part}", "description": described, "depends_on": list(before)}


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
