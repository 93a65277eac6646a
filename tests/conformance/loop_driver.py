"""Drives one run of the real loop: state machine, functions, record, a scripted model and scripted tools."""

import json
import math
import re
import time
from typing import Any

from stepagent.api.beginning import session_key_of
from stepagent.api.chat import Transcript
from stepagent.clock import now
from stepagent.executions import client, execution_status, start_execution
from stepagent.messages import AssistantMessage, ToolCall, UserMessage
from stepagent.runs import Call, CallKey, CallRef, CallResult, Decision, Principal, Run, RunKey, TurnRecord
from stepagent.settings import settings
from stepagent.store.calls import store_result
from stepagent.store.clients import dynamodb
from stepagent.store.conversation import load_history
from stepagent.store.items import marshal, unmarshal, unpack
from stepagent.store.journal import read_events
from stepagent.store.runs import create_run, load_run
from stepagent.store.turns import claim_turn, store_turn
from stepagent.usage import Usage
from tests.conformance import people, queue_driver
from tests.conformance.cases import Json, Unsupported, agent_of, tools_of
from tests.conformance.evidence import Evidence, Executed
from tests.conformance.plan import Drive
from tests.conformance.stage import Stage
from tests.conformance.wire import FILLER

OWNER = Principal("local")
_LIMIT_S = 100
_TEXT = "Please do it."


def drive(stage: Stage, each: Drive) -> Evidence:
    """Runs the loop once and gathers what can be seen of it."""
    given = each.case.input
    if "events" in given:
        return queue_driver.take_events(stage, each)
    stage.models.scripts[each.name] = each.script
    run = _run(each)
    _script_tools(stage, run, given)
    create_run(run, [UserMessage(text=str(given.get("user_text", _TEXT)))])
    if "history" in given:
        _begin_with_result(run, str(given["history"]))
    else:
        start_execution(run)
    evidence = Evidence(label=each.label, position=each.position)
    people.take_part(stage, run, given, evidence)
    _wait(run, each)
    gather(stage, run, each, evidence)
    return evidence


def _run(each: Drive) -> Run:
    tools = tools_of(each.case.input)
    key = RunKey(session_key_of(OWNER, each.name), 1)
    agent = agent_of(each.case.input, each.name, tools, each.mode)
    return Run(run_id=key.run_id, session_id=each.name, owner=OWNER, agent=agent, tools=tools, created_at=now())


def _script_tools(stage: Stage, run: Run, given: Json) -> None:
    script = {
        "outputs": given.get("tool_outputs", {}),
        "python": given.get("tool_outputs_python"),
        "raises": given.get("tool_raises", {}),
        "delay_ms": given.get("tool_delay_ms", {}),
        "chars": given.get("tool_output_chars", {}),
        "stops": [tool.name for tool in run.tools if tool.returns_directly],
    }
    (stage.folder / f"{run.run_id}.json").write_text(json.dumps(script), "utf-8")


def _begin_with_result(run: Run, history: str) -> None:
    """Begins behind a first turn whose one call has a large result, as the words of a case tell it."""
    size = re.search(r"([\d.]+)\s*([kKM])B", history)
    if size is None or "tool result" not in history:
        raise Unsupported(f"this history cannot be made: {history!r}")
    text = "x" * math.ceil(float(size[1]) * (1_000_000 if size[2] == "M" else 1_000))
    key = CallKey(1, 1, 0)
    call = Call(call_id=key.call_id, name="read_file", arguments={"path": "a"}, idempotent=True)
    asked = ToolCall(call_id=key.call_id, name=call.name, arguments='{"path": "a"}', provider_id="h1")
    reference = CallRef(call_id=key.call_id, kind="tool", target="none", timeout_s=1)
    decision = Decision(run_id=run.run_id, turn=1, next="act", calls=(reference,))
    claim = claim_turn(run, 1, "history")
    store_turn(run, claim.claim_id, TurnRecord(decision, AssistantMessage(calls=(asked,)), [call], Usage()))
    store_result(run.key, key, CallResult(text=text, finished_at=now()))
    second = json.dumps({"run_id": run.run_id, "turn": 2})
    client().start_execution(stateMachineArn=settings().state_machine_arn, name=run.run_id, input=second)


def _wait(run: Run, each: Drive) -> None:
    """Until the run has ended, or waits for a person that does not come."""
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        if execution_status(run) != "RUNNING" or people.waits(run):
            return
        time.sleep(0.1)
    raise TimeoutError(f"the run did not end within {_LIMIT_S} s ({len(each.script.requests)} model requests)")


def gather(stage: Stage, run: Run, each: Drive, evidence: Evidence) -> None:
    """Reads what the run left behind."""
    evidence.run = load_run(run.key)
    evidence.entries = load_history(run.key.session)
    evidence.requests = each.script.requests
    evidence.executed = _executed(stage, run, evidence)
    transcript = Transcript()
    for event in read_events(run.run_id, 0):
        if delta := transcript.add(event).get("content"):
            evidence.deltas.append(delta)
    evidence.visible = transcript.text.removesuffix(FILLER).rstrip("\n")
    evidence.stored = _stored(run)


def _executed(stage: Stage, run: Run, evidence: Evidence) -> list[Executed]:
    """What reached the tools, in the order of the calls."""
    log = stage.folder / f"{run.run_id}.log"
    raw = log.read_text("utf-8").splitlines() if log.exists() else []
    wire_ids = {call.call_id: call.provider_id for reply in evidence.replies for call in reply.calls}
    rows: list[tuple[Any, Executed]] = []
    for line in raw:
        row = json.loads(line)
        executed = Executed(row["name"], row["arguments"], wire_ids.get(row["call_id"], ""), line)
        rows.append((CallKey.parse(row["call_id"]), executed))
    return [executed for _, executed in sorted(rows, key=lambda row: row[0])]


def _stored(run: Run) -> list[str]:
    """Every text that the record and the journal hold of the run."""
    partition = {":pk": f"S#{run.key.session}"}
    found = dynamodb().query(
        TableName=settings().record_table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues=marshal(partition),
    )["Items"]
    items = [unmarshal(item) for item in found]
    texts = [value for item in items for value in item.values() if isinstance(value, str)]
    texts += [unpack(item, name) or "" for item in items for name in ("body", "result") if f"{name}_object" in item]
    return [*texts, *(json.dumps(event.data) for event in read_events(run.run_id, 0))]
