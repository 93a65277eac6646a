"""The product as it is measured: on the local stack, with an agent that has room for the largest run."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from unittest.mock import patch

from bench.model import ANSWER, TimedModel, question
from bench.spans import Asked, Span, System
from stepagent.api.catalog import put_row
from stepagent.api.content import ChatMessage
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.api.requests import ChatRequest
from stepagent.api.service import read_run, say
from stepagent.observe import logger
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
        # The functions log as ever; this process works in the place of some, and its lines are nothing to read.
        os.environ["POWERTOOLS_METRICS_DISABLED"] = "true"
        logger.setLevel("WARNING")
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
        self._loop, self._executions = loop, loop.client("stepfunctions")  # which takes long to make

    def ask(self, session: str, question: str) -> Span:
        """Ends with the execution: behind the last write, the last event, and the word to whoever waits for the run.

        Its end is the emulator's own, in milliseconds, so that a look now and then is enough.
        """
        began = time.time()
        run_id = say(request(session, question), ME).run.run_id
        # What looks more often takes part in what is measured.
        ended = _end(self._executions, self._loop.execution_arn(run_id), every_s=0.05)
        require_answer(read_run(run_id, ME))
        return Span(began, ended.timestamp())


def wait_end(loop: LocalLoop, run_id: RunId) -> None:
    """Returns when the execution of a run has ended, however busy this machine is."""
    _end(loop.client("stepfunctions"), loop.execution_arn(run_id), every_s=0.02)


def _end(executions: Any, arn: str, every_s: float) -> datetime:
    """When an execution ended, once it has. The emulator says for a moment that it has, and not yet when."""
    deadline = time.monotonic() + _LONGEST_S
    while not (ended := executions.describe_execution(executionArn=arn).get("stopDate")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{arn} did not end within {_LONGEST_S} s")
        time.sleep(every_s)
    found: datetime = ended
    return found


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
