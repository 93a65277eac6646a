"""Who waits for an execution that answers a call, by the execution's name. The tokens leave the server never."""

from collections.abc import Sequence
from typing import NamedTuple

from stepagent.messages import CallId, Message
from stepagent.runs import CallAddress, Run, RunId, RunKey
from stepagent.store.items import delegation_key, task_tokens_in
from stepagent.store.runs import add_usage, create_run
from stepagent.store.table import Operation, Refused, apply, change, get, transact
from stepagent.usage import Usage


class Delegation(NamedTuple):
    """The call that waits, with every token that its state has waited with: which one is in use, nobody here knows."""

    run_id: RunId
    call_id: CallId
    task_tokens: frozenset[str]


def note_waiting(execution_name: str, run_id: RunId, call_id: CallId, task_token: str) -> None:
    """Notes that a call waits, and one more token with which its state does."""
    apply(_waits(execution_name, CallAddress(run_id=run_id, call_id=call_id), task_token))


def create_called_run(run: Run, call: CallAddress, messages: Sequence[Message], task_token: str) -> None:
    """Writes the run that answers a call, as `create_run` does, and with it that the call waits.

    Raises:
        RecordConflict: the run is there already; nothing is noted.
    """
    create_run(run, messages, beside=[_waits(run.run_id, call, task_token)])


def _waits(execution_name: str, call: CallAddress, task_token: str) -> Operation:
    return change(
        delegation_key(execution_name),
        "SET run_id = :run, call_id = :call ADD task_tokens :tokens",
        "attribute_not_exists(pk) OR call_id = :call",
        {":run": call.run_id, ":call": call.call_id, ":tokens": {task_token}},
    )


def find_delegation(execution_name: str) -> Delegation | None:
    item = get(delegation_key(execution_name))
    if item is None:
        return None
    return Delegation(RunId(item["run_id"]), CallId(item["call_id"]), task_tokens_in(item))


def count_for_caller(execution_name: str, caller: RunKey, usage: Usage) -> None:
    """Adds what an agent's run spent to the run that asked for it, once, whoever tells of its end and how often."""
    counted = change(
        delegation_key(execution_name),
        "SET counted = :true",
        "attribute_exists(pk) AND attribute_not_exists(counted)",
        {":true": True},
    )
    try:
        transact([counted, add_usage(caller, usage)])
    except Refused:  # it is counted
        return
