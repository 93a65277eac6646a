"""Whole runs through the deployed state machine, as tests start and read them."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from stepagent.api.beginning import Following
from stepagent.api.chat import whole_chat
from stepagent.api.requests import ChatRequest, read_chat_request
from stepagent.api.service import read_run, say
from stepagent.runs import Call, Principal, Run, RunId
from stepagent.store.conversation import load_history
from stepagent.store.journal import read_events
from tests.local_loop import LocalLoop

ME = Principal("me")


def question(text: str, agent: str = "prober", **fields: Any) -> ChatRequest:
    body = {"model": agent, "messages": [{"role": "user", "content": text}], **fields}
    return read_chat_request(json.dumps(body).encode())


def begin(text: str, agent: str = "prober", **fields: Any) -> Following:
    return say(question(text, agent, **fields), ME)


def finish(loop: LocalLoop, text: str, agent: str = "prober", **fields: Any) -> Run:
    run_id = begin(text, agent, **fields).run.run_id
    loop.wait_end(run_id)
    return read_run(run_id, ME)


def chat(text: str, agent: str = "prober", **fields: Any) -> dict[str, Any]:
    return chat_of(begin(text, agent, **fields))


def chat_of(following: Following) -> dict[str, Any]:
    """The chat completion, or its error."""
    return asyncio.run(whole_chat(following))


def calls_of(run: Run) -> list[Call]:
    return [entry for entry in load_history(run.key.session) if isinstance(entry, Call)]


def results_of(run: Run) -> list[str]:
    return [call.result.text if call.result else "" for call in calls_of(run)]


def events_of(run_id: RunId) -> list[str]:
    return [event.type for event in read_events(run_id, 0)]


def wait_for_event(run_id: RunId, type_: str) -> None:
    deadline = time.monotonic() + 60
    while type_ not in events_of(run_id):
        assert time.monotonic() < deadline, f"{run_id}: no {type_}, only {events_of(run_id)}"
        time.sleep(0.01)


def until(holds: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come to this in time"
        time.sleep(0.02)


def probe(action: str, value: str = "", number: float = 0) -> tuple[str, dict[str, Any]]:
    return "probe", {"action": action, "value": value, "number": number}


def function_named(loop: LocalLoop, logical_id: str) -> str:
    names: list[str] = [function["FunctionName"] for function in loop.client("lambda").list_functions()["Functions"]]
    return next((name for name in names if name.endswith(logical_id)), None) or next(
        name for name in names if logical_id in name
    )
