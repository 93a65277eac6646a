"""The product as it is measured: on the local stack, with an agent that has room for the largest run."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from bench.model import ANSWER, TimedModel, question
from bench.spans import Asked, Span, System
from stepagent.api.catalog import put_row
from stepagent.api.content import ChatMessage
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.api.requests import ChatRequest
from stepagent.api.service import read_run, say
from stepagent.rows import RowKey
from stepagent.runs import Principal, Run, RunId
from tests.local_loop import LocalLoop, forget, local_loop

AGENT = "bench"
ME = Principal("bench")

_LONGEST_S = 300


@contextmanager
def measured_stack(base_url: str) -> Iterator[LocalLoop]:
    """The deployed product, with the agent of the benchmarks; what this process believed before is restored."""
    with patch.dict(os.environ), local_loop(base_url) as loop:
        row = {
            "instructions": "Use the calculator.",
            "tools": ["calculator", "ask_user"],
            "limits": {"max_turns": 40, "max_calls": 400},
        }
        put_row(
            RowKey("agent", AGENT), json.dumps(row).encode(), Precondition("", ""), Caller(ME, frozenset({"catalog"}))
        )
        yield loop
    forget()


def request(session: str, text: str) -> ChatRequest:
    return ChatRequest(model=AGENT, messages=[ChatMessage(role="user", content=text)], session_id=session)


class StepAgent:
    """This product on the local stack, without its HTTP API."""

    name = "stepagent"
    kept = "every message, call and result, each turn, in DynamoDB, beside a journal of events; survives the process"

    def __init__(self, loop: LocalLoop) -> None:
        self._loop = loop

    def ask(self, session: str, question: str) -> Span:
        began = time.time()
        run = say(request(session, question), ME).run
        while run.ended_at is None:
            time.sleep(0.05)  # what looks more often takes part in what is measured
            run = read_run(run.run_id, run.owner)
        require_answer(run)
        wait_end(self._loop, run.run_id)  # its execution ends a moment later
        return Span(began, run.ended_at.timestamp())


def wait_end(loop: LocalLoop, run_id: RunId) -> None:
    """Returns when the execution of a run has ended, however busy this machine is."""
    executions, deadline = loop.client("stepfunctions"), time.monotonic() + _LONGEST_S
    while executions.describe_execution(executionArn=loop.execution_arn(run_id))["status"] == "RUNNING":
        if time.monotonic() > deadline:
            raise TimeoutError(f"{run_id} did not end within {_LONGEST_S} s")
        time.sleep(0.02)


def require_answer(run: Run) -> None:
    if not run.answer.startswith(ANSWER):
        raise RuntimeError(f"{run.run_id} ended {run.status} with {run.answer[:200]!r}: {run.failure}")


def hold(system: System, model: TimedModel, turns: int, calls: int, name: str) -> list[Asked]:
    """One conversation of n turns: a run with tools in each turn, or, without calls, n questions in one session."""
    session, asked = f"{name} with {system.name}", []
    for number in range(1 if calls else turns):
        text = question(turns if calls else 0, calls, f"{session} {number}")
        whole = system.ask(session, text)
        asked.append(Asked(whole, model.replies_to(text, turns + 1 if calls else 1)))
    return asked
