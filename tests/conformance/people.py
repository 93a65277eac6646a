"""What people do to a run of a case: they answer its questions, in turn or at once, and cancel it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from stepagent.executions import execution_status
from stepagent.messages import AssistantMessage
from stepagent.runs import ENDED, Call, Run
from stepagent.store.conversation import load_history
from stepagent.store.journal import read_events
from stepagent.store.runs import load_run
from tests.conformance.cases import Json, Unsupported
from tests.conformance.evidence import Answer, Evidence, states_of
from tests.conformance.stage import Stage

_PAUSE_S = 30
STILL_OPEN = "refused with the field at fault, and still to be answered"
_PRECISER = (404, 422)  # what ours says of an unknown question and of a wrong answer, where the bank says 400
_LATER_S = 2  # until a question of a later turn is asked


def take_part(stage: Stage, run: Run, given: Json, evidence: Evidence) -> None:
    """Does what the case scripts, and notes the answers of our API."""
    if "cancel_during" in given:
        _until(lambda: _is_at(run, str(given["cancel_during"])))
        evidence.answers.append(_post(stage, f"/runs/{run.run_id}/cancel", {}))
        if evidence.answers[-1].status >= 400:
            raise Unsupported(f"POST /runs/ID/cancel answers {evidence.answers[-1].status}")
    steps = {name: value for name, value in given.items() if name.startswith("resume") and name != "resume_after_s"}
    if not steps:
        return
    _until(lambda: waits(run) or execution_status(run) not in ("RUNNING", None))
    evidence.state_before_resume = next(iter(states_of(load_run(run.key))), "")
    time.sleep(float(given.get("resume_after_s", 0)))
    for name, value in steps.items():
        evidence.answers += _resume(stage, run, name, value)


def waits(run: Run) -> bool:
    """Whether only people can make the run go on."""
    stored = load_run(run.key)
    if stored is None or not stored.pending or stored.status in ENDED:
        return False
    asking = {tool.name for tool in run.tools if tool.kind == "interactive"}
    still = [e for e in load_history(run.key.session) if isinstance(e, Call) and e.result is None]
    shown = sum(event.type == "interaction.required" for event in read_events(run.run_id, 0))
    asked = sum(e.name in asking for e in load_history(run.key.session) if isinstance(e, Call))
    return all(call.name in asking for call in still) and shown >= asked


def _resume(stage: Stage, run: Run, name: str, value: Any) -> list[Answer]:
    if isinstance(value, str):
        body = {"model": "agent", "session_id": run.session_id, "messages": [{"role": "user", "content": value}]}
        return [_post(stage, "/chat/completions", body)]
    steps = value if isinstance(value, list) else [value]
    if "parallel" in name or "concurrent" in name or "twice" in name:
        both = steps * 2 if len(steps) == 1 else steps
        with ThreadPoolExecutor(len(both)) as pool:
            return list(pool.map(lambda step: _answer(stage, run, step), both))
    return [_answer(stage, run, step) for step in steps]


def _answer(stage: Stage, run: Run, step: Json) -> Answer:
    question = _question(run, step.get("tool_call_id"))
    answer = _post(stage, f"/interactions/{question}", {"answer": step["value"]} if "value" in step else {})
    if answer.status in _PRECISER and _names_its_field(answer) and waits(run):
        answer.label = STILL_OPEN
    return answer


def _names_its_field(answer: Answer) -> bool:
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    return isinstance(error, dict) and bool(error.get("param"))


def _question(run: Run, wire_id: Any) -> str:
    """The interaction of the call that the provider knows by this id; without an id, the one that is open."""
    deadline = time.monotonic() + _LATER_S
    while True:
        asked = {e.data["call_id"]: e for e in read_events(run.run_id, 0) if e.type == "interaction.required"}
        replies = [e for e in load_history(run.key.session) if isinstance(e, AssistantMessage)]
        ids = {call.provider_id: call.call_id for reply in replies for call in reply.calls}
        call_id = ids.get(str(wire_id)) if wire_id is not None else next(reversed(asked), None)
        if call_id in asked:
            return str(asked[call_id].data["interaction_id"])
        if time.monotonic() > deadline:
            return str(wire_id or "none")
        time.sleep(0.1)


def _post(stage: Stage, path: str, body: Json) -> Answer:
    try:
        reply = stage.door.post(path, json=body)
    except httpx.TransportError as error:
        return Answer(0, {}, str(error))
    return Answer(reply.status_code, dict(reply.headers), reply.text)


def _is_at(run: Run, moment: str) -> bool:
    """Whether a run has come to where a case wants to cancel it: a tool that runs, or a reply that streams."""
    events = read_events(run.run_id, 0)
    if any(event.type == "tool.started" for event in events):
        return True
    return "tool" not in moment and moment not in {t.name for t in run.tools} and any("turn" in e.type for e in events)


def _until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PAUSE_S
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"what the case waits for did not come within {_PAUSE_S} s")
        time.sleep(0.1)
