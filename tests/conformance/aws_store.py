"""Situations at the record's boundary: pages, large and odd values, and answers that come too late."""

import datetime
import decimal
import json
from typing import Any
from unittest import mock

from botocore.exceptions import ClientError

from stepagent import executions
from stepagent.answering import answer
from stepagent.api.beginning import session_key_of
from stepagent.clock import now
from stepagent.errors import RequestError
from stepagent.history import fit, to_messages
from stepagent.messages import AssistantMessage, ToolCall, UserMessage
from stepagent.runs import Call, CallKey, CallRef, CallResult, Decision, Run, RunKey, TurnRecord
from stepagent.settings import settings
from stepagent.store.calls import store_result
from stepagent.store.clients import dynamodb
from stepagent.store.conversation import load_history, put_call, put_message
from stepagent.store.items import marshal
from stepagent.store.journal import read_events
from stepagent.store.results import read_kept_result
from stepagent.store.runs import create_run
from stepagent.store.table import transact
from stepagent.store.turns import claim_turn, store_turn
from stepagent.tools.execution import to_result
from stepagent.tools.rendering import to_text
from stepagent.usage import Usage
from tests.conformance import wire
from tests.conformance.cases import Case, Json, agent_of, tools_of
from tests.conformance.evidence import Answer, Evidence
from tests.conformance.loop_driver import OWNER, drive
from tests.conformance.plan import Drive
from tests.conformance.pure_driver import model_of, rendered
from tests.conformance.stage import Stage

_NAMES = {"datetime": datetime, "decimal": decimal, "Decimal": decimal.Decimal}


def a_run(name: str) -> Run:
    tools = tools_of({"tools": ["weird"]})
    key = RunKey(session_key_of(OWNER, name), 1)
    agent = agent_of({}, name, tools)
    return Run(run_id=key.run_id, session_id=name, owner=OWNER, agent=agent, tools=tools, created_at=now())


def paging(case: Case, name: str) -> Evidence:
    """A session of so many items of that size, half of them calls with results, read back and cut to the newest."""
    run, count, size = a_run(name), int(case.input.get("items", 300)), int(case.input.get("item_bytes", 8000))
    create_run(run, [UserMessage(text="begin")])
    for turn in range(1, count // 2 + 1):
        call = Call(call_id=CallKey(1, turn, 0).call_id, name="weird", arguments={})
        done = call.model_copy(update={"result": CallResult(text="x" * size, finished_at=now()), "status": "done"})
        said = AssistantMessage(text="y" * size, calls=(ToolCall(call_id=call.call_id, name="weird"),))
        transact([put_message(run.key, turn, said), put_call(run.key.session, done)])
    entries = load_history(run.key.session)
    messages = to_messages(entries)
    newest = sum(len(m.text.encode()) // 3 + 30 for m in messages[-20:])
    seen = rendered({}, model_of("openai"), "", fit(messages, newest), "")
    seen.facts["loaded_all"] = len(entries) == 1 + 2 * (count // 2)
    return seen


def round_trip(case: Case, name: str) -> Evidence:
    """A value as a tool's result and, where it is an object, as a call's arguments: written, read, measured."""
    run, given = a_run(name), case.input
    value = _value_of(given)
    create_run(run, [UserMessage(text="begin")])
    arguments = value if isinstance(value, dict) and _is_json(value) else {}
    call = Call(call_id=CallKey(1, 1, 0).call_id, name="weird", arguments=arguments)
    written = json.dumps(arguments, ensure_ascii=False)
    said = AssistantMessage(calls=(ToolCall(call_id=call.call_id, name="weird", arguments=written),))
    reference = CallRef(call_id=call.call_id, kind="tool", target="none", timeout_s=1)
    decision = Decision(run_id=run.run_id, turn=1, next="act", calls=(reference,))
    claim = claim_turn(run, 1, "case")
    store_turn(run, claim.claim_id, TurnRecord(decision, said, [call], Usage()))
    text = to_text(value)
    store_result(run.key, call.key, to_result(run.key, call, text))
    read = next(entry for entry in load_history(run.key.session) if isinstance(entry, Call))
    same = _whole_result(run, read) == text and read.arguments == arguments
    return Evidence(facts={"round_trip": same, "item_bytes": _largest_item(run)})


def _whole_result(run: Run, call: Call) -> str:
    """The text of a result, also where the record shows a preview of it."""
    if call.result is None or call.result.kept_bytes is None:
        return call.result.text if call.result else ""
    return read_kept_result(run.key, call.key, 0, call.result.kept_bytes).text_bytes.decode()


def _value_of(given: Json) -> Any:
    """What a case wants stored: a Python expression, a value, or only its size in bytes."""
    if python := next((value for field, value in given.items() if field.endswith("_python")), None):
        return eval(python, dict(_NAMES))
    rest = {field: value for field, value in given.items() if field not in ("kind", "service", "note")}
    if sizes := [value for field, value in rest.items() if field.endswith("_bytes")]:
        return "x" * int(sizes[0])
    return next(iter(rest.values()), "")


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def _largest_item(run: Run) -> int:
    found = dynamodb().query(
        TableName=settings().record_table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues=marshal({":pk": f"S#{run.key.session}"}),
    )["Items"]
    return max(len(json.dumps(item, ensure_ascii=False).encode()) for item in found)


def late_callback(stage: Stage, case: Case, name: str) -> Evidence:
    """A person answers, and the service says that no task waits with this token."""
    codes = [case.input["error"]["Code"], *case.input.get("variants", [])]
    evidence = Evidence(facts={"retries": 0})
    for position, code in enumerate(codes):
        _one_late_callback(stage, case, f"{name}-{position}", code, evidence)
    return evidence


def asking(stage: Stage, case: Case, name: str) -> Run:
    """A run that waits for a person."""
    function = {"name": "ask_user", "arguments": '{"question": "A?"}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    script = wire.Script([wire.streamed(wire.completion({"content": None, "tool_calls": calls}, "tool_calls"))])
    given = {"kind": "scenario", "tools": ["ask_user"], "turns": []}
    seen = drive(stage, Drive(Case(case.id, case.group, given, {}), name, script))
    assert seen.run
    return seen.run


def _one_late_callback(stage: Stage, case: Case, name: str, code: str, evidence: Evidence) -> None:
    run = asking(stage, case, name)
    events = read_events(run.run_id, 0)
    question = next(event.data["interaction_id"] for event in events if event.type == "interaction.required")
    service = executions.client()
    refused = ClientError({"Error": {"Code": code, "Message": ""}}, "SendTaskSuccess")
    kind = getattr(service.exceptions, code, None)
    error = kind(refused.response, "SendTaskSuccess") if kind else refused
    with mock.patch.object(service, "send_task_success", side_effect=error) as sent:
        try:
            answer(question, OWNER, "yes")
        except RequestError as refusal:
            evidence.answers.append(Answer(refusal.http_status, {}, refusal.message, code))
        except ClientError as raised:
            evidence.answers.append(Answer(500, {}, str(raised), code))
        else:
            evidence.answers.append(Answer(200, {}, "answered", code))
    evidence.facts["retries"] = max(evidence.facts["retries"], sent.call_count - 1)
    executions.client().stop_execution(executionArn=stage.loop.execution_arn(run.run_id))
