"""Tools touch the items of sessions alone, which is all that their functions may."""

from collections.abc import Iterator
from typing import Any

import pytest

from stepagent.clock import now
from stepagent.settings import settings
from stepagent.store.clients import dynamodb
from stepagent.store.notes import Note, add_note, load_notes
from stepagent.tools.execution import Invocation, execute
from tests.builders import RUN_ID, a_call, a_run, a_tool
from tests.recorded import begin
from tests.tables import tables_in_memory
from tests.unit.test_template import FUNCTIONS, TOOL_FUNCTIONS, listed, statements

READS = {"GetItem": "dynamodb:GetItem", "UpdateItem": "dynamodb:UpdateItem"}


@pytest.fixture
def asked() -> Iterator[list[tuple[str, str]]]:
    """Requests to the record since a run with one call began: operation and partition."""
    requests: list[tuple[str, str]] = []

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        if params["TableName"] == settings().record_table:
            requests.append((model.name, params["Key"]["pk"]["S"]))

    with tables_in_memory():
        begin(a_run(a_tool(), created_at=now()), a_call())
        dynamodb().meta.events.register("provide-client-params.dynamodb", note)
        yield requests


def use_everything(invocation: Invocation) -> str:
    add_note(invocation.run.session, invocation.call.call_id, Note(text="x"))
    return f"{invocation.tool.name} {load_notes(invocation.run.session)}"


def test_tool_asks_for_items_of_its_session_alone_in_ways_that_it_may(asked: list[tuple[str, str]]) -> None:
    execute(RUN_ID, a_call().call_id, use_everything)
    execute(RUN_ID, a_call().call_id, use_everything)
    assert {partition for _, partition in asked} == {"S#abc"}
    assert {operation for operation, _ in asked} == set(READS)


@pytest.mark.parametrize("name", TOOL_FUNCTIONS)
def test_function_of_a_tool_may_touch_items_of_sessions_and_a_list_of_tools_alone(name: str) -> None:
    record = [s for s in statements(FUNCTIONS[name]) if "RecordTable" in str(s["Resource"])]
    keys = {key for s in record for key in s["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]}
    assert keys - {"MCP#*"} == {"S#*"}
    assert ("MCP#*" in keys) is (name == "ToolMcpFunction")
    assert {action for s in record for action in listed(s["Action"])} == set(READS.values())
