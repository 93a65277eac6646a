"""Batches on the local stack: each input gets one result, also where the stack stops in the middle and starts again."""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.build import build
from local.deploy import client, deploy
from local.emulator import Emulator, start, stop
from tests.functions import ROOT
from tests.local_loop import API_KEY, enter, forget
from tests.plans import a_step, written
from tests.scripted_model import Reply, ScriptedModel

INPUTS = 200
BAD = ["{not json", '{"id": "x-blank", "input": "  "}']
_END_S = 240
_STOP_AFTER = 40  # results


class Machine:
    """The product on an emulator of its own, which can be stopped and started again."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self._state = folder / "state"
        self._state.mkdir()
        hashes = f"local={hashlib.sha256(API_KEY.encode()).hexdigest()},other={hashlib.sha256(b'other').hexdigest()}"
        parameters = {"ModelBaseUrl": model.base_url, "ModelName": "scripted", "ModelApiKeySecretArn": ""}
        self._package = build(ROOT, environment={}, parameters={**parameters, "ApiKeyHashes": hashes})
        self._start()

    def restart(self) -> None:
        stop(self.emulator)
        self.client.close()
        self._start()

    def close(self) -> None:
        self.client.close()
        stop(self.emulator)

    def _start(self) -> None:
        self.emulator: Emulator = start(self._state)
        self.stack = deploy(self.emulator, self._package)
        enter(self.emulator, self.stack, ROOT)
        self.client = httpx.Client(
            base_url=self.stack.api_url, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=30, trust_env=False
        )

    def begin(self, **body: Any) -> dict[str, Any]:
        deadline = time.monotonic() + _END_S
        response = self.client.post("/batches", json={"agent": "assistant", **body})
        while response.status_code >= 500 and time.monotonic() < deadline:  # a gateway that waited too long
            response = self.client.post("/batches", json={"agent": "assistant", **body})
        assert response.status_code == 202, response.text
        shown: dict[str, Any] = response.json()
        return shown

    def read(self, batch_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.client.get(f"/batches/{batch_id}").json()
        return shown

    def until(self, batch_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + _END_S
        while not holds(shown := self.read(batch_id)):
            assert "error" not in shown or shown["error"]["type"] == "server_error", shown
            assert time.monotonic() < deadline, f"it did not come to this in time: {shown}"
            time.sleep(0.2)
        return shown

    def ended(self, batch_id: str) -> dict[str, Any]:
        return self.until(batch_id, lambda shown: shown.get("status") in ("completed", "failed", "cancelled"))

    def results(self, batch_id: str, kind: str = "succeeded") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            query: dict[str, Any] = {"kind": kind, "after": after, "limit": 150}
            page = self.client.get(f"/batches/{batch_id}/results", params=query).json()
            found, after = found + page["data"], page["next"]
        return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    before = dict(os.environ)
    with ScriptedModel(default=repeat) as model:
        running = Machine(tmp_path_factory.mktemp("batches"), model)
        yield running
        running.close()
    os.environ.clear()
    os.environ.update(before)
    forget()


def counts_of(shown: dict[str, Any]) -> Counter[str]:
    """How a batch's inputs stand; nothing where the gateway waited too long for an answer."""
    return Counter(shown.get("counts"))


def question_in(request: dict[str, Any]) -> str:
    return str(next(message["content"] for message in reversed(request["messages"]) if message["role"] == "user"))


def repeat(request: dict[str, Any]) -> Reply:
    """Keeps no state: all it needs stands in the request."""
    if "fail" in question_in(request):
        return Reply(text="", finish_reason="content_filter")
    return Reply(text=f"answer to {question_in(request)}")


def test_every_input_has_one_result_when_the_stack_stops_in_the_middle(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"id": f"q-{n}", "input": f"question {n}"}) for n in range(INPUTS, 0, -1)]
    body = {"batch_id": "large", "inputs": "\n".join([*lines[:50], *BAD, *lines[50:]]), "max_concurrency": 20}
    began = time.monotonic()
    machine.begin(**body)
    machine.until("large", lambda shown: counts_of(shown)["succeeded"] >= _STOP_AFTER)
    machine.restart()
    machine.begin(**body)
    shown = machine.ended("large")
    took_s = time.monotonic() - began
    good, bad = machine.results("large"), machine.results("large", "failed")
    asked = Counter(question_in(request) for request in machine.model.requests)
    twice = sum(times > 1 for times in asked.values())
    with capsys.disabled():
        print(
            f"\n{INPUTS} inputs with a restart in the middle: {took_s:.1f} s, {len(good)} results, {len(bad)} failures;"
            f" {twice} models were asked again, in whose middle it stopped"
        )
    assert [(each["input_id"], each["failure"]["code"]) for each in bad] == [
        ("51", "invalid_input"),
        ("x-blank", "invalid_input"),
    ], [each["failure"] for each in bad]
    assert [(each["input_id"], each["answer"]) for each in good] == [
        (f"q-{n}", f"answer to question {n}") for n in range(1, INPUTS + 1)
    ]
    assert [each["line"] for each in bad] == [51, 52]
    assert len({each["run_id"] for each in good}) == INPUTS
    assert shown["counts"] == {"total": 202, "pending": 0, "running": 0, "succeeded": 200, "failed": 2}
    assert shown["executions"] == 2


def test_finished_batch_runs_nothing_when_it_is_begun_again(machine: Machine) -> None:
    body = {"batch_id": "again", "inputs": ["one", "two"]}
    machine.begin(**body)
    machine.ended("again")
    before = len(machine.model.requests)
    assert machine.begin(**body)["status"] == "completed"
    assert len(machine.model.requests) == before
    assert [each["answer"] for each in machine.results("again")] == ["answer to one", "answer to two"]


def test_inputs_are_answered_by_plans_when_their_agent_works_so(machine: Machine) -> None:
    plan = Reply(text=written([a_step("a"), a_step("b", "a")]))
    machine.model.script_for("Make the plan.", plan, plan)
    machine.begin(batch_id="planned", agent="planner", inputs=["one large task", "another one"])
    assert machine.ended("planned")["counts"]["succeeded"] == 2
    good = machine.results("planned")
    assert [each["answer"].partition("\n")[0] for each in good] == ["answer to The plan is over:"] * 2
    for each in good:
        run = machine.client.get(f"/runs/{each['run_id']}").json()
        assert [(step["id"], step["status"]) for step in run["plan"]["steps"]] == [("a", "done"), ("b", "done")]


def test_batch_fails_when_more_inputs_fail_than_it_tolerates(machine: Machine) -> None:
    machine.begin(batch_id="failing", inputs=["fail", "fail", "good"], tolerated_failure_count=1)
    shown = machine.ended("failing")
    assert (shown["status"], shown["failure"]["code"]) == ("failed", "too_many_failures")
    assert len(machine.results("failing", "failed")) >= 2


def test_batch_from_the_bucket_is_run_for_its_owner_alone(machine: Machine) -> None:
    content = "id,input\na,one\nb,two\n"
    client(machine.emulator, "s3").put_object(
        Bucket=machine.stack.bucket, Key="batches/inputs/local/x.csv", Body=content.encode()
    )
    machine.begin(batch_id="csv", source={"key": "batches/inputs/local/x.csv"})
    machine.ended("csv")
    assert [each["input_id"] for each in machine.results("csv")] == ["a", "b"]
    for path in ("/batches/csv", "/batches/csv/results"):
        assert machine.client.get(path, headers={"Authorization": "Bearer other"}).status_code == 404


def test_cancelled_batch_ends_with_what_it_came_to(machine: Machine) -> None:
    slow = ["slow"] * 8
    machine.model.script_for("slow", *[Reply(text="late", first_delay_s=30)] * 8)
    machine.begin(batch_id="cancelled", inputs=slow, max_concurrency=2)
    machine.until("cancelled", lambda shown: counts_of(shown)["running"] == 2)
    machine.client.post("/batches/cancelled/cancel")
    shown = machine.ended("cancelled")
    assert (shown["status"], shown["counts"]["failed"]) == ("cancelled", 8)
    assert {each["failure"]["code"] for each in machine.results("cancelled", "failed")} <= {"cancelled", "not_run"}
