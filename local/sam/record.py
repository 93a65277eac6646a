"""The record that the sample events speak of: the run `run_sample_1`, which has asked for one call.

It is laid out anew before each event, so that none meets what another one changed.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from local.deploy import Stack, client
from local.emulator import Emulator
from stepagent.agents import AgentSpec
from stepagent.catalog import load_catalog
from stepagent.clock import now
from stepagent.ending import finalize
from stepagent.llm.reply import Reply, RequestedCall
from stepagent.messages import UserMessage
from stepagent.runs import Principal, Run, RunId
from stepagent.settings import settings
from stepagent.store.conversation import load_history
from stepagent.store.runs import create_run
from stepagent.store.turns import claim_turn, store_turn
from stepagent.tool_specs import ToolSpec
from stepagent.turn import run_turn
from stepagent.usage import Usage

RUN_ID, OWNER = RunId("run_sample_1"), Principal("me")
_BATCH = 25  # of BatchWriteItem
_CALLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # what the run asks for, where a function runs one tool alone
    "ask": ("ask_user", {"question": "Which colour?"}),
    "tool_current_time": ("current_time", {}),
    "tool_http_request": ("http_request", {"url": "https://example.com/"}),
    "tool_read_result": ("read_result", {"call_id": "call_1_1_0"}),
    "tool_recall": ("recall", {}),
    "tool_remember": ("remember", {"note": "Likes tea."}),
    "tool_search_docs": ("search_docs", {"query": "How does an agent call a tool?"}),
}
_FOLLOWERS = {"stream"}  # of a run that goes on they would wait for what never comes
_CALCULATION: tuple[str, Mapping[str, Any]] = ("calculator", {"expression": "17*23"})


class _Table(NamedTuple):
    name: str
    keys: tuple[str, str]


class SampleRecord:
    """The tables of a stack of its own, as they were right after it was deployed."""

    def __init__(self, emulator: Emulator, stack: Stack, root: Path) -> None:
        self._client = client(emulator, "dynamodb")
        self._tables = (_Table(stack.record_table, ("pk", "sk")), _Table(stack.journal_table, ("run_id", "n")))
        self._tools = load_catalog(root / "catalog").tools
        self._fresh = {table: list(self._items(table)) for table in self._tables}

    def lay_out(self, function: str) -> None:
        """Forgets whatever happened, and begins the run with a call that this function can carry out."""
        for table, items in self._fresh.items():
            gone = [{"DeleteRequest": {"Key": _key(table, item)}} for item in self._items(table)]
            self._write(table, gone)
            self._write(table, [{"PutRequest": {"Item": item}} for item in items])
        name, arguments = _CALLS.get(function, _CALCULATION)
        begin(self._tools[name], arguments)
        if function in _FOLLOWERS:
            with redirect_stdout(io.StringIO()):  # which is where metrics go
                finalize(RUN_ID, "ABORTED")

    def _items(self, table: _Table) -> Iterator[dict[str, Any]]:
        for page in self._client.get_paginator("scan").paginate(TableName=table.name):
            yield from page["Items"]

    def _write(self, table: _Table, requests: list[dict[str, Any]]) -> None:
        for start in range(0, len(requests), _BATCH):
            self._client.batch_write_item(RequestItems={table.name: requests[start : start + _BATCH]})


def enter(variables: Mapping[str, str]) -> None:
    """Lets the library in this process take part in the stack whose functions have these variables."""
    os.environ.pop("AWS_PROFILE", None)  # it would win over the emulator's credentials
    os.environ.update(variables)
    settings.cache_clear()


def begin(tool: ToolSpec, arguments: Mapping[str, Any]) -> None:
    """Begins the run and stores its first turn, as a model's wish for this call has it."""
    agent = AgentSpec(name="assistant", instructions="Answer briefly.", tools=(tool.name,))
    run = Run(run_id=RUN_ID, session_id="sample", owner=OWNER, agent=agent, tools=(tool,), created_at=now())
    create_run(run, [UserMessage(text="This is a sample.")])
    wanted = RequestedCall("wanted", tool.name, json.dumps(arguments))
    reply = Reply("", "", (wanted,), "tool_calls", Usage())
    claim = claim_turn(run, 1, "sample")
    store_turn(run, claim.claim_id, run_turn(run, 1, load_history(run.key.session), lambda _: reply))


def _key(table: _Table, item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in table.keys}
