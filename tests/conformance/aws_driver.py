"""Drives situations at AWS boundaries as far as the emulator, the template and the definition can show them."""

import re
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from pydantic import ValidationError
from samtranslator.yaml_helper import yaml_parse

from stepagent.agents import MAX_CALLS_PER_TURN, Limits
from stepagent.api.beginning import session_key_of
from stepagent.executions import client, start_execution
from stepagent.runs import ENDED, Decision, RunId, RunKey
from stepagent.store.runs import load_run
from tests.builders import a_run
from tests.conformance import aws_events, aws_store, definition_check, queue_driver, wire
from tests.conformance.aws_store import asking
from tests.conformance.cases import Case, Json, Skipped, Unsupported, event_of
from tests.conformance.evidence import Answer, Evidence
from tests.conformance.loop_driver import OWNER, drive
from tests.conformance.plan import Drive
from tests.conformance.stage import LONG_AGENT, LONG_MODEL, Stage
from tests.conformance.wire import Script
from tests.definition import PATH
from tests.local_loop import ROOT


def drive_aws(stage: Stage, case: Case, name: str) -> Iterator[Evidence]:
    """Finds the situation by what is asserted and given; what nothing here can show is skipped."""
    for applies, situation in _SITUATIONS:
        if applies(case.input, case.asserts.keys()):
            yield situation(stage, case, name)
            return
    service = case.input.get("service", "AWS")
    keys = ", ".join(sorted(case.asserts))
    raise Skipped(f"needs {service} itself: nothing on this machine shows {keys} for this situation")


def _lint(stage: Stage, case: Case, name: str) -> Evidence:
    """The check finds the case's fault, and none in the product's own definition."""
    definitions = [
        value for value in case.input.values() if isinstance(value, dict) and {"Type", "States"} & set(value)
    ]
    if not definitions:
        raise Unsupported("the case holds no definition")
    faults = definition_check.faults_of(definition_check.states_of(definitions[0]))
    return Evidence(facts={"lint": faults, "own_lint": definition_check.product_faults()})


def _large_results(stage: Stage, case: Case, name: str) -> Evidence:
    """One turn with results of these sizes; then a run whose execution is stopped from outside."""
    sizes = next(
        (v for v in case.input.values() if isinstance(v, list) and all(isinstance(n, int) for n in v)), [90_000]
    )
    evidence = _tool_run(stage, case, name, len(sizes), {"tool_output_chars": {"weird": max(sizes)}})
    assert evidence.run
    events = stage.loop.history(evidence.run.run_id)
    details = [detail for event in events for detail in event.values() if isinstance(detail, dict)]
    texts = [text for detail in details for key in ("input", "output") if (text := detail.get(key))]
    evidence.facts["state_bytes"] = max(len(text.encode()) for text in texts)
    evidence.facts["closed_on"] = _closed_on(stage, case, f"{name}-0")
    return evidence


def _closed_on(stage: Stage, case: Case, name: str) -> list[str]:
    """The statuses on which the template closes a run, once a run whose execution is stopped was seen to be closed."""
    rule = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]["FinalizeFunction"]["Properties"]["Events"]
    patterns = [event["Properties"]["Pattern"] for event in rule.values()]
    waiting = asking(stage, case, name)
    client().stop_execution(executionArn=stage.loop.execution_arn(waiting.run_id))
    for _ in range(100):
        if (stored := load_run(waiting.key)) and stored.status in ENDED:
            return [f"EXECUTION {status}" for pattern in patterns for status in pattern["detail"]["status"]]
        time.sleep(0.1)
    return []


def _strange_result(stage: Stage, case: Case, name: str) -> Evidence:
    python = next(value for field, value in case.input.items() if field.endswith("_python"))
    return _tool_run(stage, case, name, 1, {"tool_outputs_python": python})


def _tool_run(stage: Stage, case: Case, name: str, calls: int, tool: Json) -> Evidence:
    """A run of one turn with so many calls of one tool."""
    function = {"name": "weird", "arguments": "{}"}
    asked = [{"id": f"c{n}", "type": "function", "function": function} for n in range(calls)]
    steps = [wire.streamed(wire.completion({"content": None, "tool_calls": asked}, "tool_calls"))]
    given = {"kind": "scenario", "tools": ["weird"], "turns": [], **tool}
    return drive(stage, Drive(Case(case.id, case.group, given, case.expected), name, Script(steps)))


def _started_again(stage: Stage, case: Case, name: str) -> Evidence:
    """The same run, started as often as the case starts it."""
    named = (case.input.get(field) for field in ("run_id", "session_id", "run_key", "key", "name"))
    session = str(next((each for each in named if each), name))
    run_id = RunKey(session_key_of(OWNER, session), 1).run_id
    run = a_run(run_id=run_id)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: start_execution(run), case.input.get("calls", [1])))
    return Evidence(runs=_executions(stage, run_id), facts={"execution_name": run_id})


def _executions(stage: Stage, run_id: RunId) -> int:
    machine = stage.loop.stack.state_machine_arn
    pages = client().get_paginator("list_executions").paginate(stateMachineArn=machine)
    return sum(execution["name"] == run_id for page in pages for execution in page["executions"])


def _events(stage: Stage, case: Case, name: str) -> Evidence:
    """The events of history that the largest admitted run takes, by the definition: 11 a turn and 9 a call."""
    turns = int(case.input.get("turns", 1000))
    tools = min(int(case.input.get("tools_per_turn", MAX_CALLS_PER_TURN)), MAX_CALLS_PER_TURN)
    admitted = max(number for number in range(1, turns + 1) if _admits(number, tools))
    return Evidence(facts={"events": admitted * (11 + 9 * tools) + 10, "admitted_turns": admitted})


def _admits(turns: int, tools: int) -> bool:
    try:
        Limits(max_turns=turns, max_calls_per_turn=tools)
    except ValidationError:
        return False
    return True


def _fields(stage: Stage, case: Case, name: str) -> Evidence:
    """The contract of the states: Think always writes every field that the definition reads, null where unknown."""
    read = set(re.findall(r"\$states\.input\.(\w+)", PATH.read_text()))
    written = set(Decision(run_id=RunId("run_a_1"), turn=1, next="done").model_dump(mode="json"))
    by_states = {"call_id", "kind", "target", "timeout_s", "error"}  # the definition's own states hand these on
    return Evidence(facts={"unwritten": sorted(read - written - by_states)})


def _errors(stage: Stage, case: Case, name: str) -> Evidence:
    names = [*case.input.get("errors", ()), *case.asserts["retry_table"]]
    return Evidence(facts={"handling": {error: definition_check.handling(error) for error in names}})


def _long_run(stage: Stage, case: Case, name: str) -> Evidence:
    """A request to a model that takes longer than a gateway waits, and the client's second try meanwhile."""
    given, evidence = case.input, Evidence(runs=0)
    reply = wire.streamed(wire.completion({"content": "Late."}))
    parts = [wire.Part(reply.parts[0].content, float(given["run_s"])), *reply.parts[1:]]
    stage.models.scripts[LONG_MODEL] = Script([wire.Wire(parts, 200, reply.headers)], repeat=True)
    modes = given.get("mode", ["sync"])
    with ThreadPoolExecutor(4) as pool:
        tries = [
            pool.submit(_try, stage, str(mode), pause_s)
            for mode in ([modes] if isinstance(modes, str) else modes)
            for pause_s in ([0, 2] if given.get("client_retry") else [0])
        ]
        evidence.answers = [each.result() for each in tries]
    keys = [session_key_of(OWNER, f"long-{mode}") for mode in modes]
    evidence.runs = max(sum(load_run(RunKey(key, ordinal)) is not None for ordinal in (1, 2, 3)) for key in keys)
    return evidence


def _try(stage: Stage, mode: str, pause_s: float) -> Answer:
    time.sleep(pause_s)
    session = f"long-{mode}"
    body = {"model": LONG_AGENT, "session_id": session, "messages": [{"role": "user", "content": "hi"}]}
    began = time.monotonic()
    reply = stage.door.post(
        "/chat/completions", json={**body, "stream": mode == "stream"}, headers={"Idempotency-Key": session}
    )
    took_s = time.monotonic() - began
    status = reply.status_code if took_s < _gateway_s() else 504
    return Answer(status, dict(reply.headers), f"{reply.text[:120]} (after {took_s:.0f} s)", mode)


def _gateway_s() -> int:
    """How long the gateway waits for the chat: 29 s, or 15 minutes where it streams the response."""
    events = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]["StreamFunction"]["Properties"]["Events"]
    return 900 if events["Chat"]["Properties"].get("ResponseTransferMode") == "RESPONSE_STREAM" else 29


Applies = Callable[[Json, Collection[str]], bool]
Situation = Callable[[Stage, Case, str], Evidence]
_SITUATIONS: list[tuple[Applies, Situation]] = [
    (lambda given, keys: "lint_error" in keys, _lint),
    (lambda given, keys: bool({"state_bytes_max", "run_closed_on"} & set(keys)), _large_results),
    (lambda given, keys: "retry_table" in keys, _errors),
    (lambda given, keys: "max_events" in keys, _events),
    (lambda given, keys: "name_pattern" in keys or "calls" in given, _started_again),
    (lambda given, keys: "messages_loaded_all" in keys, lambda stage, case, name: aws_store.paging(case, name)),
    (
        lambda given, keys: bool({"round_trip_equal", "item_bytes_max"} & set(keys)),
        lambda stage, case, name: aws_store.round_trip(case, name),
    ),
    (lambda given, keys: any(key.startswith("state_output") for key in keys), _fields),
    (lambda given, keys: "call" in given and "error" in given, aws_store.late_callback),
    (lambda given, keys: any(field.endswith("_python") for field in given), _strange_result),
    (lambda given, keys: given.get("service") == "apigateway" and "run_s" in given, _long_run),
    (
        lambda given, keys: given.get("service") == "sqs" or "batch" in given or "batch_item_failures" in keys,
        queue_driver.take_batches,
    ),
    (lambda given, keys: event_of(given) is not None, aws_events.hand_over),
]
