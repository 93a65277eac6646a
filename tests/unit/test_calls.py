"""Calls that a model asked for: which may run, on whose terms, and by which way through the state machine."""

import json
from typing import Any

import pytest

from stepagent.agents import MAX_DEPTH, Limits
from stepagent.approvals import digest_of
from stepagent.calls import Terms, make_call, reference
from stepagent.llm.reply import RequestedCall
from stepagent.runs import Call, CallRef, CallStatus, Run
from stepagent.tool_specs import ToolSpec
from tests.builders import OWNER, a_run, a_tool

LAMBDA_ARN = "arn:aws:lambda:eu-west-1:123456789012:function:theirs"
MACHINE_ARN = "arn:aws:states:eu-west-1:123456789012:stateMachine:theirs"


def made(tool: ToolSpec, arguments: str = '{"q": "x"}', index: int = 0, left: int = 100, **run: Any) -> Call:
    of = a_run(tool, **run)
    return make_call(of, 1, index, RequestedCall("p", tool.name, arguments), Terms(of.tools, "tool_calls", left))


def way_of(tool: ToolSpec) -> CallRef:
    return reference(a_run(tool), made(tool))


def test_call_has_the_terms_of_its_tool_and_the_runs_owner() -> None:
    call = made(a_tool(idempotent=True, timeout_s=7, returns_directly=True, bound={"count": 5}))
    assert (call.idempotent, call.timeout_s, call.returns_directly, call.caller) == (True, 7, True, OWNER)
    assert call.all_arguments == {"q": "x", "count": 5}


def test_bound_value_wins_over_the_models() -> None:
    assert made(a_tool(bound={"q": "mine"})).all_arguments == {"q": "mine"}


@pytest.mark.parametrize(("index", "runs"), [(1, True), (2, False)])
def test_call_does_not_run_when_the_run_has_none_left(index: int, runs: bool) -> None:
    call = made(a_tool(), index=index, left=2, limits=Limits(max_calls=9))
    assert (call.status is CallStatus.PENDING) is runs
    assert runs or (call.result and "at most 9 calls" in call.result.text)


@pytest.mark.parametrize(
    "when",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
    ],
)
def test_call_needs_approval_when_its_condition_cannot_be_checked(when: dict[str, Any]) -> None:
    assert made(a_tool(approval={"when": when})).needs_approval


@pytest.mark.parametrize(
    ("approval", "arguments", "expected"),
    [
        ("never", {"q": "x"}, False),
        ("always", {"q": "x"}, True),
        ({"when": {"properties": {"count": {"minimum": 100}}, "required": ["count"]}}, {"q": "x", "count": 99}, False),
        ({"when": {"properties": {"count": {"minimum": 100}}, "required": ["count"]}}, {"q": "x", "count": 100}, True),
        ({"when": {"properties": {"count": {"minimum": 100}}, "required": ["count"]}}, {"q": "x"}, False),
    ],
)
def test_call_needs_approval_when_its_row_or_its_arguments_say_so(
    approval: Any, arguments: dict[str, Any], expected: bool
) -> None:
    assert made(a_tool(approval=approval), json.dumps(arguments)).needs_approval is expected


def test_condition_of_approval_sees_bound_values() -> None:
    when = {"when": {"properties": {"count": {"minimum": 100}}, "required": ["count"]}}
    assert made(a_tool(approval=when, bound={"count": 500})).needs_approval


def test_call_that_needs_approval_goes_to_a_person_first() -> None:
    way = way_of(a_tool(approval="always", approval_timeout_s=60))
    assert (way.kind, way.timeout_s) == ("ask", 60)


def test_digest_of_arguments_is_the_same_in_any_order_and_another_for_other_values() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert len({digest_of(arguments) for arguments in ({"a": 1}, {"a": "1"}, {"a": 1.5}, {"b": 1}, {})}) == 5


HTTP = {"url": "https://api.example.com/items"}


@pytest.mark.parametrize(
    ("row", "kind", "target"),
    [
        ({"kind": "lambda", "target": "tool_search"}, "tool", "tool_search"),
        ({"kind": "external_lambda", "target": LAMBDA_ARN}, "tool", "tool_invoke_lambda"),
        ({"kind": "http", "target": "", "http": HTTP}, "tool", "tool_http"),
        ({"kind": "workflow", "target": MACHINE_ARN}, "workflow", ""),
        ({"kind": "agent", "target": "helper"}, "workflow", ""),
        ({"kind": "interactive", "target": ""}, "ask", ""),
    ],
)
def test_call_goes_the_way_of_its_kind(row: dict[str, Any], kind: str, target: str) -> None:
    way = way_of(a_tool(**row))
    assert (way.kind, way.target) == (kind, target)


@pytest.mark.parametrize(("depth", "runs"), [(MAX_DEPTH - 1, True), (MAX_DEPTH, False)])
def test_agent_is_not_called_when_too_many_agents_stand_above(depth: int, runs: bool) -> None:
    call = made(a_tool(kind="agent", target="helper"), depth=depth)
    assert (call.status is CallStatus.PENDING) is runs


def test_function_is_given_a_moment_more_than_its_call() -> None:
    run: Run = a_run(a_tool(timeout_s=7))
    assert reference(run, made(a_tool(timeout_s=7))).timeout_s > 7
