"""Drives the function that starts runs from the messages of a queue, which may come twice, at once, or broken.

Cases share the principal that owns such runs, and a message's id stands for its job for weeks: so every id and session
of a case bears its name, and one case at a time begins runs.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stepagent.api.beginning import session_key_of
from stepagent.runs import ENDED, Principal, Run, RunId, RunKey
from stepagent.settings import settings
from stepagent.store.runs import load_run
from tests.conformance import wire
from tests.conformance.cases import Case, Json, Unsupported, event_of
from tests.conformance.evidence import Evidence, Executed
from tests.conformance.plan import Drive
from tests.conformance.stage import API_MODEL, WORK_TOOL, WORKER_AGENT, WORKER_MODEL, Stage
from tests.conformance.wire import Asked, Script, Wire

_END_S = 60
_WORK_MS = 500  # so that a second delivery finds the first one's run at work


class _Worker(Script):
    """A model that has one piece of work done, whatever other runs ask it meanwhile."""

    def answer(self, asked: Asked) -> Wire:
        self.requests.append(asked)
        if any(message["role"] == "tool" for message in asked.body["messages"]):
            return wire.said("done")
        call = {"id": "w1", "type": "function", "function": {"name": WORK_TOOL, "arguments": "{}"}}
        return wire.streamed(wire.completion({"content": None, "tool_calls": [call]}, "tool_calls"))


def take_batches(stage: Stage, case: Case, name: str) -> Evidence:
    """Batches as SQS hands them over: whole, or each message by itself, all of them at once where they overlap."""
    batches = _batches(stage, case.input, name)
    with stage.api_turn:
        stage.models.scripts[WORKER_MODEL] = _Worker([])
        return _deliver(stage, name, batches, at_once=bool(case.input.get("overlap")))


def take_events(stage: Stage, each: Drive) -> Evidence:
    """Events that trigger runs: each one is a message, its business key stands in the body."""
    records = [
        _record(
            f"{each.name}/{event['event_id']}",
            {"agent": "agent", "input": "hi", "message_id": f"{each.name}/{event['message_id']}"},
            receives=1 + int(event.get("retry", 0)),
        )
        for event in each.case.input["events"]
    ]
    with stage.api_turn:
        stage.models.scripts[API_MODEL] = each.script
        return _deliver(stage, each.name, [[record] for record in records])


def _batches(stage: Stage, given: Json, name: str) -> list[list[Json]]:
    if event := event_of(given):
        return [event["Records"]]
    if "batch" in given:
        keys = [key if key != "ok" else f"ok-{n}" for n, key in enumerate(given["batch"])]
        return [[_record(f"{name}/{key}", "{not json" if "poison" in key else _job(stage, name, key)) for key in keys]]
    return [[_message(stage, name, message)] for message in given["messages"]]


def _message(stage: Stage, name: str, message: Json) -> Json:
    """A message whose body names what is to be run: by that it is known, whatever the message's own id."""
    business_key = next(iter(message.get("body", {}).values()), None)
    job = _job(stage, name, str(business_key or message["messageId"]))
    known_by = {"message_id": f"{name}/{business_key}"} if business_key else {}
    return _record(f"{name}/{message['messageId']}", {**job, **known_by}, int(message.get("receive", 1)))


def _job(stage: Stage, name: str, key: str) -> Json:
    session_id = f"{name}-{key}"
    script: Json = {"python": None, "delay_ms": {WORK_TOOL: _WORK_MS}}
    script |= {"outputs": {}, "raises": {}, "chars": {}, "stops": []}
    (stage.folder / f"{_run_id(session_id)}.json").write_text(json.dumps(script), "utf-8")
    return {"agent": WORKER_AGENT, "input": "hi", "session_id": session_id}


def _run_id(session_id: str) -> RunId:
    """The first run of a session."""
    return RunKey(session_key_of(_owner(), session_id), 1).run_id


def _record(message_id: str, body: Any, receives: int = 1) -> Json:
    return {
        "messageId": message_id,
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {"ApproximateReceiveCount": str(receives)},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:jobs",
    }


def _deliver(stage: Stage, name: str, batches: Sequence[list[Json]], *, at_once: bool = False) -> Evidence:
    """Hands the batches over and waits for the runs that begin."""
    function = _function(stage)
    before = _executions(stage)

    def invoke(batch: list[Json]) -> list[str]:
        reply = stage.loop.client("lambda").invoke(FunctionName=function, Payload=json.dumps({"Records": batch}))
        body = json.load(reply["Payload"]) or {}
        if "FunctionError" in reply:
            raise RuntimeError(f"the function failed: {body}")
        return [each["itemIdentifier"].removeprefix(f"{name}/") for each in body["batchItemFailures"]]

    with ThreadPoolExecutor(len(batches) if at_once else 1) as pool:
        failed = [each for found in pool.map(invoke, batches) for each in found]
    runs = [run for run_id in _executions(stage) - before if (run := load_run(RunKey.parse(run_id)))]
    runs = [run for run in runs if run.owner == _owner()]
    for run in runs:
        _wait_end(run.key)
    executed = [done for run in runs for done in _executed(stage, run)]
    return Evidence(runs=len(runs), executed=executed, facts={"batch_item_failures": failed})


def _function(stage: Stage) -> str:
    functions = stage.loop.client("lambda").list_functions()["Functions"]
    named = [function["FunctionName"] for function in functions if "ingest" in function["FunctionName"].lower()]
    if not named:
        raise Unsupported("the product has no function that starts runs from a queue")
    return str(named[0])


def _executions(stage: Stage) -> set[str]:
    """The names of all executions that were ever started, which are the ids of their runs."""
    machine = stage.loop.stack.state_machine_arn
    pages = stage.loop.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=machine)
    return {execution["name"] for page in pages for execution in page["executions"]}


def _executed(stage: Stage, run: Run) -> list[Executed]:
    log = stage.folder / f"{run.run_id}.log"
    rows = [(line, json.loads(line)) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    return [Executed(row["name"], row["arguments"], "", f"{run.run_id} {line}") for line, row in rows]


def _wait_end(key: RunKey) -> None:
    deadline = time.monotonic() + _END_S
    while (run := load_run(key)) is None or run.status not in ENDED:
        if time.monotonic() > deadline:
            raise TimeoutError(f"a run that a message started did not end within {_END_S} s")
        time.sleep(0.1)


def _owner() -> Principal:
    return Principal(settings().ingest_principal)
