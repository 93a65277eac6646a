"""What a state machine's definition must have so that a run can neither hang nor end unseen."""

from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Json
from tests.definition import all_states

_TASK_TOKEN = ".waitForTaskToken"
_LIMITS = ("TimeoutSeconds", "TimeoutSecondsPath", "HeartbeatSeconds", "HeartbeatSecondsPath")
# Whatever a Lambda function may fail with before or after its code ran.
_SERVICE = ("Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException")


def faults_of(states: dict[str, Json]) -> list[str]:
    """Everything that is wrong with these states."""
    return [f"{name}: {fault}" for name, state in states.items() for fault in _faults(state)]


def states_of(asl: Json) -> dict[str, Json]:
    """The states of a definition, or the one state that is given, with those inside of Maps and branches."""
    if "States" not in asl:
        return {"State": asl, **_inner(asl)}
    found: dict[str, Json] = {}
    for name, state in asl["States"].items():
        found |= {name: state, **_inner(state)}
    return found


def product_faults() -> list[str]:
    return faults_of(all_states())


def _inner(state: Json) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for inner in (state.get("ItemProcessor"), state.get("Iterator"), *state.get("Branches", ())):
        if inner:
            found |= states_of(inner)
    return found


def _faults(state: Json) -> Iterator[str]:
    if state.get("Type") != "Task":
        return
    waits = str(state.get("Resource", "")).endswith(_TASK_TOKEN)
    if not any(state.get(word) for word in _LIMITS):
        yield "waits without a limit" if waits else "has no time-out"
    caught = {name for catch in state.get("Catch", ()) for name in catch.get("ErrorEquals", ())}
    if not caught & {"States.ALL", "States.Timeout", "States.TaskFailed"}:
        yield "has no Catch"
    for retry in state.get("Retry", ()):
        if {"States.ALL", "States.TaskFailed", "States.Timeout"} & set(retry["ErrorEquals"]):
            yield "retries what may have taken effect"
        if "MaxAttempts" in retry and isinstance(retry["MaxAttempts"], int) and retry["MaxAttempts"] > 10:
            yield "retries too often"


def handling(error: str) -> str:
    """What every task of the product does with an error of this name: `retry`, `catch` or `fail`."""
    ways = {_way(state, error) for state in all_states().values() if state["Type"] == "Task"}
    return ways.pop() if len(ways) == 1 else f"mixed: {sorted(ways)}"


def _way(state: Json, error: str) -> str:
    def named(handlers: Any) -> bool:
        return any({error, "States.ALL"} & set(each["ErrorEquals"]) for each in handlers)

    return "retry" if named(state.get("Retry", ())) else "catch" if named(state.get("Catch", ())) else "fail"
