"""When a question to the product begins and ends for the benchmarks."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import stack as subject
from tests.builders import RUN_ID, a_run
from tests.local_loop import LocalLoop

CLOSED = datetime(2030, 1, 1, 12, tzinfo=UTC)
STOPPED = CLOSED + timedelta(milliseconds=12)
SUCCEEDED = {"status": "SUCCEEDED", "stopDate": STOPPED}


class Loop:
    """Stands for `LocalLoop`: an execution that is described as listed, one answer after the other."""

    def __init__(self, described: Sequence[dict[str, Any]]) -> None:
        self.clients = 0
        self._described = list(described)

    def client(self, service: str) -> "Loop":
        assert service == "stepfunctions"
        self.clients += 1
        return self

    def execution_arn(self, run_id: str) -> str:
        return f"arn:{run_id}"

    def describe_execution(self, **asked: str) -> dict[str, Any]:
        assert asked == {"executionArn": f"arn:{RUN_ID}"}
        return self._described.pop(0)


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(answer="Done.", ended_at=CLOSED)
    monkeypatch.setattr(subject, "say", lambda *_: SimpleNamespace(run=run))
    monkeypatch.setattr(subject, "read_run", lambda *_: run)
    monkeypatch.setattr(time, "sleep", lambda _: None)


def loop(*described: dict[str, Any]) -> LocalLoop:
    return cast(LocalLoop, Loop(described))


def test_question_ends_with_its_execution_when_the_record_was_closed_before() -> None:
    running = {"status": "RUNNING"}
    assert subject.StepAgent(loop(running, running, SUCCEEDED)).ask("s", "x").ended == STOPPED.timestamp()


def test_end_is_waited_for_when_the_emulator_names_no_date_yet() -> None:
    subject.wait_end(found := loop({"status": "SUCCEEDED"}, SUCCEEDED), RUN_ID)
    assert not cast(Any, found)._described


def test_no_client_is_made_while_a_question_is_measured() -> None:
    found = loop(SUCCEEDED)
    system = subject.StepAgent(found)
    made = cast(Any, found).clients
    system.ask("s", "x")
    assert cast(Any, found).clients == made


def test_run_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_LONGEST_S", -1)
    with pytest.raises(TimeoutError, match=RUN_ID):
        subject.wait_end(loop({"status": "RUNNING"}), RUN_ID)


def test_other_answer_than_the_scripts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "read_run", lambda *_: a_run(answer="No."))
    with pytest.raises(RuntimeError, match=r"'No\.'"):
        subject.StepAgent(loop(SUCCEEDED)).ask("s", "x")
