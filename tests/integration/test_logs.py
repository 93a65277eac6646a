"""The logs of whole runs: enough to find one, and nothing of what was said, given, answered or trusted."""

import json
import time
from typing import Any

import httpx
import pytest

from stepagent.runs import RunId
from stepagent.settings import settings
from stepagent.store.clients import dynamodb
from stepagent.store.items import unmarshal
from tests.integration.runs import calls_of, finish, probe
from tests.local_loop import API_KEY, LocalLoop
from tests.scripted_model import Fault, Reply, ScriptedModel

# One for each way in: no log may hold any of them.
QUESTION, ANSWER, REASON = "qXq-what-is-asked", "aXa-what-is-answered", "rXr-what-a-person-says"
ARGUMENT, SHOWN, RAISED = "vXv-an-argument", "sXs-to-be-approved", "eXe-raised-by-a-tool"
_WAIT_S = 60
_TURNS, _CALLS = 5, 4  # of the runs below
PAYLOADS = (QUESTION, ANSWER, REASON, ARGUMENT, SHOWN, RAISED)


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
def told(loop: LocalLoop, api: httpx.Client, endless_model: ScriptedModel) -> tuple[list[RunId], list[str]]:
    """The runs that were made, and the log lines since."""
    endless_model.reset()
    endless_model.script_for(
        QUESTION,
        Reply(calls=(probe("echo", ARGUMENT), probe("raise", RAISED), probe("refuse", RAISED))),
        Reply(text=ANSWER),
    )
    worked = finish(loop, f"{QUESTION} with tools", session_id="logs")
    assert [call.name for call in calls_of(worked)] == ["probe"] * 3

    endless_model.script_for(QUESTION, Reply(calls=(("guarded", {"action": "echo", "value": SHOWN}),)))
    said = [{"role": "user", "content": f"{QUESTION} with a person"}]
    asking = {"model": "asker", "messages": said, "session_id": "logs of a question"}
    asked = api.post("/chat/completions", json=asking).json()["stepagent"]
    [question] = asked["interactions"]
    endless_model.script_for(QUESTION, Reply(text=ANSWER))
    rejected = api.post(
        f"/interactions/{question['interaction_id']}", json={"answer": {"decision": "reject", "reason": REASON}}
    )
    assert rejected.is_success
    loop.wait_end(asked["run_id"])

    endless_model.script_for(QUESTION, Fault(400, body={"error": {"message": f"Bad request: {QUESTION}"}}))
    failed = finish(loop, f"{QUESTION} to a provider that refuses", session_id="logs of a failure")
    assert failed.failure

    refused = api.post("/runs", json={"model": QUESTION, "messages": [{"role": "user", "content": QUESTION}]})
    assert refused.is_client_error
    runs = [worked.run_id, asked["run_id"], failed.run_id]
    return runs, complete_lines(loop, api, endless_model, runs)


def complete_lines(loop: LocalLoop, api: httpx.Client, model: ScriptedModel, runs: list[RunId]) -> list[str]:
    """All lines, once these runs have theirs: what the emulator reads late it tells with the function's next call."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        lines = lines_of_functions(loop)
        counts = [len(told_of((runs, lines), message)) for message in ("turn", "call")]
        if counts == [_TURNS, _CALLS] or time.monotonic() > deadline:
            return lines
        api.get("/runs")
        model.script_for("once more", Reply(calls=(probe("echo", "again"),)), Reply(text="Again."))
        finish(loop, "once more")


def test_failure_of_a_tool_can_be_found_in_the_logs(told: tuple[list[RunId], list[str]]) -> None:
    _, lines = told
    logged: list[dict[str, Any]] = [json.loads(line) for line in lines if "tool raised" in line]
    assert "RuntimeError" in {line["exception_name"] for line in logged}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_log_has_what_was_said_or_given(payload: str, told: tuple[list[RunId], list[str]]) -> None:
    _, lines = told
    assert [line for line in lines if payload in line] == []


def told_of(told: tuple[list[RunId], list[str]], message: str) -> list[dict[str, Any]]:
    """The lines with this message."""
    runs, lines = told
    found = [json.loads(line) for line in lines if f'"message":"{message}"' in line]
    return [line for line in found if line["run_id"] in runs]


def test_each_turn_of_each_run_has_one_line(told: tuple[list[RunId], list[str]]) -> None:
    worked, asked, failed = told[0]
    turns = sorted((line["run_id"], line["turn"], line["next"]) for line in told_of(told, "turn"))
    assert turns == sorted(
        [(worked, 1, "act"), (worked, 2, "done"), (asked, 1, "act"), (asked, 2, "done"), (failed, 1, "fail")]
    )


def test_each_call_has_one_line_with_what_came_of_it(told: tuple[list[RunId], list[str]]) -> None:
    calls = sorted((line["tool"], line.get("error", "")) for line in told_of(told, "call"))
    assert calls == [("guarded", "Rejected"), ("probe", ""), ("probe", "RuntimeError"), ("probe", "ToolError")]


def test_lines_of_a_run_bear_its_id_and_the_function_that_wrote_them(told: tuple[list[RunId], list[str]]) -> None:
    lines = told_of(told, "turn") + [line for line in told_of(told, "call") if line["tool"] == "probe"]
    assert {line["function_name"].partition("-")[2][:5] for line in lines} <= {"Think", "tool_"}
    assert all(line["function_request_id"] for line in lines)


def test_no_log_has_a_task_token(told: tuple[list[RunId], list[str]]) -> None:
    _, lines = told
    tokens = task_tokens()
    assert tokens
    assert [line for line in lines if any(token in line for token in tokens)] == []


def test_no_log_has_a_key(told: tuple[list[RunId], list[str]]) -> None:
    _, lines = told
    assert [line for line in lines if API_KEY in line] == []
