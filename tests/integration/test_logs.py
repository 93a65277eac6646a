"""The logs of whole runs: enough to find one, and nothing of what was said, given, answered or trusted."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from stepagent.api.service import join_job
from stepagent.runs import Principal, Run, RunId, RunKey, SessionKey
from stepagent.settings import settings
from stepagent.store.clients import dynamodb
from stepagent.store.items import session_key, unmarshal
from tests.integration.runs import calls_of, finish, function_named, probe, until
from tests.local_loop import API_KEY, LocalLoop, front_door
from tests.scripted_model import Fault, Raw, Reply, ScriptedModel

# One for each way in: no log may hold any of them.
QUESTION, ANSWER, REASON = "qXq-what-is-asked", "aXa-what-is-answered", "rXr-what-a-person-says"
ARGUMENT, SHOWN, RAISED = "vXv-an-argument", "sXs-to-be-approved", "eXe-raised-by-a-tool"
EDITED, PURPOSE = "dXd-an-argument-of-a-person", "pXp-what-a-form-is-for"
FIELD, WRONG = "fXf-written-into-a-form", "wXw-a-field-that-the-form-has-not"
FILE, FILE_NAME, STREAMED = "cXc-what-a-file-holds", "nXn-the-name-of-a-file", "tXt-what-is-streamed"
STORED, INVOKED = "bXb-what-the-record-holds", "iXi-what-a-function-is-given"
PAYLOADS = (
    *(QUESTION, ANSWER, REASON, ARGUMENT, SHOWN, RAISED, EDITED, PURPOSE),
    *(FIELD, WRONG, FILE, FILE_NAME, STREAMED, STORED, INVOKED),
)


def echo(secret: str) -> dict[str, Any]:
    """A provider's error that repeats what it was asked, wherever it can."""
    return {"error": {"message": f"Cannot answer {secret}", "type": secret, "param": secret}}


# What a provider answers first, by what it repeats; the run fails, or waits and asks again.
REFUSALS: dict[str, Fault | Raw] = {
    "kXk-in-a-400": Fault(400, body=echo("kXk-in-a-400")),
    "kXk-in-a-429": Fault(429, {"x-request-id": "req_429"}, echo("kXk-in-a-429")),
    "kXk-in-a-500": Fault(500, body=echo("kXk-in-a-500")),
    "kXk-in-a-stream": Raw(chunks=(echo("kXk-in-a-stream"),)),
}
SESSION, JOB = "logs of a stream", "job-of-the-logs"
_WAIT_S = 60


class Made(NamedTuple):
    """A run with what it should have a line for: its turns by where they led, and its calls by what came of them."""

    run_id: RunId
    turns: Sequence[tuple[int, str]]
    calls: Sequence[tuple[str, str]] = ()


class Told(NamedTuple):
    """The runs that were made, and the log lines since: of the functions, and of `stream` in the front door."""

    runs: list[Made]
    functions: list[str]
    door: list[str]

    @property
    def lines(self) -> list[str]:
        return self.functions + self.door

    def of(self, message: str) -> list[dict[str, Any]]:
        """The lines with this message about these runs."""
        ids = {made.run_id for made in self.runs}
        found = [json.loads(line) for line in self.lines if f'"message":"{message}"' in line]
        return [line for line in found if line["run_id"] in ids]


def lines_of_functions(loop: LocalLoop) -> list[str]:
    logs = loop.client("logs")
    groups = logs.get_paginator("describe_log_groups").paginate()
    names = [group["logGroupName"] for page in groups for group in page["logGroups"]]
    return [
        event["message"]
        for name in names
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=name)
        for event in page["events"]
    ]


def task_tokens() -> set[str]:
    """Those that the record knows, used or not."""
    pages = dynamodb().get_paginator("scan").paginate(TableName=settings().record_table)
    items = [unmarshal(item) for page in pages for item in page["Items"]]
    return {token for item in items for token in item.get("task_tokens", ())}


@pytest.fixture(scope="module")
def door_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("door") / "front_door.log"


@pytest.fixture(scope="module")
def api(loop: LocalLoop, door_log: Path) -> Iterator[httpx.Client]:
    """A client behind a front door of its own, which has the log of `stream`."""
    with front_door(loop, log=door_log) as client:
        yield client


@pytest.fixture(scope="module")
def told(loop: LocalLoop, api: httpx.Client, endless_model: ScriptedModel, door_log: Path) -> Told:
    model = endless_model
    model.reset()
    streamed = run_that_is_streamed(api, model)
    runs = [
        streamed,
        run_with_tools(loop, model),
        run_with_a_rejection(loop, api, model),
        run_with_edited_arguments(loop, api, model),
        run_with_a_form(loop, api, model),
        run_of_a_job(loop, model),
        *(run_with_a_refusal(loop, model, secret) for secret in REFUSALS),
    ]
    refused = api.post("/runs", json={"agent": QUESTION, "input": QUESTION, QUESTION: QUESTION})
    assert refused.is_client_error
    fail_in_functions(loop, api, RunKey.parse(streamed.run_id).session)
    return Told(runs, complete_lines(loop, api, model, runs), door_log.read_text().splitlines())


def run_with_tools(loop: LocalLoop, model: ScriptedModel) -> Made:
    model.script_for(
        QUESTION,
        Reply(calls=(probe("echo", ARGUMENT), probe("raise", RAISED), probe("refuse", RAISED))),
        Reply(text=ANSWER),
    )
    run = finish(loop, f"{QUESTION} with tools", session_id="logs")
    ends = ("probe", ""), ("probe", "RuntimeError"), ("probe", "ToolError")
    assert [call.name for call in calls_of(run)] == ["probe"] * 3
    return Made(run.run_id, ((1, "act"), (2, "done")), ends)


def run_with_a_rejection(loop: LocalLoop, api: httpx.Client, model: ScriptedModel) -> Made:
    run_id, path = asked(api, model, "guarded", {"action": "echo", "value": SHOWN})
    return answered(loop, api, run_id, path, {"decision": "reject", "reason": REASON}, ("guarded", "Rejected"))


def run_with_edited_arguments(loop: LocalLoop, api: httpx.Client, model: ScriptedModel) -> Made:
    run_id, path = asked(api, model, "guarded", {"action": "echo", "value": SHOWN})
    wrong = {"decision": "edit", "arguments": {"action": WRONG, WRONG: EDITED}}
    assert api.post(path, json={"answer": wrong}).is_client_error
    edited = {"decision": "edit", "arguments": {"action": "echo", "value": EDITED}}
    return answered(loop, api, run_id, path, edited, ("guarded", ""))


def run_with_a_form(loop: LocalLoop, api: httpx.Client, model: ScriptedModel) -> Made:
    run_id, path = asked(api, model, "ask_form", {"purpose": PURPOSE})
    filled = {"name": FIELD, "email": f"{FIELD}@example.com", "day": "2030-02-01"}
    assert api.post(path, json={"answer": {**filled, WRONG: FIELD}}).is_client_error
    return answered(loop, api, run_id, path, filled, ("ask_form", ""))


def asked(api: httpx.Client, model: ScriptedModel, tool: str, arguments: dict[str, Any]) -> tuple[RunId, str]:
    """A run that waits for a person; its id, and the path of its question."""
    model.script_for(QUESTION, Reply(calls=((tool, arguments),)), Reply(text=ANSWER))
    said = [{"role": "user", "content": f"{QUESTION} with a person"}]
    body = {"model": "asker", "messages": said, "session_id": f"logs of {len(model.requests)}"}
    standing = api.post("/chat/completions", json=body).json()["stepagent"]
    [question] = standing["interactions"]
    return RunId(standing["run_id"]), f"/interactions/{question['interaction_id']}"


def answered(
    loop: LocalLoop, api: httpx.Client, run_id: RunId, path: str, answer: dict[str, Any], came_of_it: tuple[str, str]
) -> Made:
    assert api.post(path, json={"answer": answer}).is_success
    loop.wait_end(run_id)
    return Made(run_id, ((1, "act"), (2, "done")), (came_of_it,))


def run_that_is_streamed(api: httpx.Client, model: ScriptedModel) -> Made:
    model.script_for(QUESTION, Reply(text=STREAMED, chunk_chars=len(STREAMED)))
    said = [{"role": "user", "content": f"{QUESTION} as a stream"}]
    response = api.post(
        "/chat/completions", json={"model": "prober", "messages": said, "session_id": SESSION, "stream": True}
    )
    assert STREAMED in response.text
    return Made(RunId(response.headers["x-stepagent-run-id"]), ((1, "done"),))


def run_of_a_job(loop: LocalLoop, model: ScriptedModel) -> Made:
    model.script_for(QUESTION, Reply(text=ANSWER))
    files = [{"name": f"{FILE_NAME}.txt", "text": FILE}]
    job = {"agent": "prober", "input": f"{QUESTION} of a job", "files": files, "message_id": JOB}
    stacks = loop.client("cloudformation").describe_stacks(StackName="stepagent")["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stacks[0]["Outputs"]}
    loop.client("sqs").send_message(QueueUrl=outputs["IngestQueueUrl"], MessageBody=json.dumps(job))
    found: list[Run] = []

    def is_begun() -> bool:
        run = join_job(Principal("queue"), JOB)
        found.extend([run] if run else [])
        return bool(found)

    until(is_begun)
    loop.wait_end(found[0].run_id)
    assert any(FILE in str(request["messages"]) for request in model.requests)
    return Made(found[0].run_id, ((1, "done"),))


def run_with_a_refusal(loop: LocalLoop, model: ScriptedModel, secret: str) -> Made:
    model.script_for(secret, REFUSALS[secret], Reply(text=ANSWER))
    run = finish(loop, f"Answer {secret}", session_id=secret)
    return Made(run.run_id, ((1, "fail"),) if run.failure else ((1, "wait"), (1, "done")))


def fail_in_functions(loop: LocalLoop, api: httpx.Client, session: SessionKey) -> None:
    """Has functions fail over what they read: `stream`, `api`, and one whose failure Lambda's runtime logs as well."""
    chat = {"model": "prober", "messages": [{"role": "user", "content": QUESTION}], "session_id": SESSION}
    job = {"agent": "prober", "input": QUESTION, "session_id": SESSION}
    with broken(session):
        for path, body in (("/chat/completions", chat), ("/runs", job)):
            # A server that fails closes the connection, which would be used again.
            failed = api.post(path, json=body, headers={"connection": "close"})
            assert failed.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    think, event = function_named(loop, "ThinkFunction"), {"run_id": INVOKED, "turn": 1}
    answer = loop.client("lambda").invoke(FunctionName=think, Payload=json.dumps(event).encode())
    assert INVOKED in json.loads(answer["Payload"].read())["errorMessage"]


@contextmanager
def broken(session: SessionKey) -> Iterator[None]:
    """A session that cannot be read meanwhile: its item holds a text in the place of a number."""
    table, key = settings().record_table, session_key(session)
    whole = dynamodb().get_item(TableName=table, Key=key)["Item"]
    dynamodb().put_item(TableName=table, Item={**whole, "runs": {"S": STORED}})
    try:
        yield
    finally:
        dynamodb().put_item(TableName=table, Item=whole)


def complete_lines(loop: LocalLoop, api: httpx.Client, model: ScriptedModel, runs: list[Made]) -> list[str]:
    """All lines, once these runs have theirs: what the emulator reads late it tells with the function's next call."""
    deadline = time.monotonic() + _WAIT_S
    wanted = [sum(len(made.turns) for made in runs), sum(len(made.calls) for made in runs)]
    while True:
        lines = lines_of_functions(loop)
        told = Told(runs, lines, [])
        if [len(told.of("turn")), len(told.of("call"))] == wanted or time.monotonic() > deadline:
            return lines
        api.get("/runs")
        model.script_for("once more", Reply(calls=(probe("echo", "again"),)), Reply(text="Again."))
        finish(loop, "once more")


def test_failure_of_a_tool_can_be_found_in_the_logs(told: Told) -> None:
    logged: list[dict[str, Any]] = [json.loads(line) for line in told.functions if "tool raised" in line]
    assert "RuntimeError" in {line["exception_name"] for line in logged}


def test_failure_of_a_function_can_be_found_in_the_logs(told: Told) -> None:
    failed = [line for line in told.functions if '"function failed"' in line or '"request failed"' in line]
    assert {json.loads(line)["exception_name"] for line in failed} >= {"NotFound", "ValueError"}


def test_log_of_the_front_door_has_what_fails_in_it(told: Told) -> None:
    assert [line for line in told.door if '"message":"request failed"' in line]


@pytest.mark.parametrize("payload", [*PAYLOADS, *REFUSALS])
def test_no_log_has_what_was_said_or_given(payload: str, told: Told) -> None:
    assert [line for line in told.lines if payload in line] == []


def test_wait_for_a_provider_says_which_refusal_it_was(told: Told) -> None:
    waits = [(line["code"], line.get("status"), line.get("request_id")) for line in told.of("model busy")]
    assert sorted(waits, key=str) == [
        ("model_busy", 429, "req_429"),
        ("model_busy", 500, None),
        ("model_busy", None, None),
    ]


def test_each_turn_of_each_run_has_one_line(told: Told) -> None:
    turns = sorted((line["run_id"], line["turn"], line["next"]) for line in told.of("turn"))
    assert turns == sorted((made.run_id, *turn) for made in told.runs for turn in made.turns)


def test_each_call_has_one_line_with_what_came_of_it(told: Told) -> None:
    calls = sorted((line["run_id"], line["tool"], line.get("error", "")) for line in told.of("call"))
    assert calls == sorted((made.run_id, *call) for made in told.runs for call in made.calls)


def test_lines_of_a_run_bear_its_id_and_the_function_that_wrote_them(told: Told) -> None:
    lines = told.of("turn") + [line for line in told.of("call") if line["tool"] == "probe"]
    assert {line["function_name"].partition("-")[2][:5] for line in lines} <= {"Think", "tool_"}
    assert all(line["function_request_id"] for line in lines)


def test_no_log_has_a_task_token(told: Told) -> None:
    tokens = task_tokens()
    assert tokens
    assert [line for line in told.lines if any(token in line for token in tokens)] == []


def test_no_log_has_a_key(told: Told) -> None:
    assert [line for line in told.lines if API_KEY in line] == []
