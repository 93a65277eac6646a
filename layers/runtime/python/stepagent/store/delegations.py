"""Who waits for an execution that answers a call, by the execution's name. The token leaves the server never."""

from typing import NamedTuple

from stepagent.messages import CallId
from stepagent.runs import RunId, RunKey
from stepagent.store.items import delegation_key
from stepagent.store.runs import add_usage
from stepagent.store.table import Refused, apply, change, get, transact
from stepagent.usage import Usage


class Delegation(NamedTuple):
    run_id: RunId
    call_id: CallId
    task_token: str


def put_delegation(execution_name: str, delegation: Delegation) -> None:
    """Notes who waits; a state that is entered anew waits with another token, which then counts."""
    noted = change(
        delegation_key(execution_name),
        "SET run_id = :run, call_id = :call, task_token = :token",
        "attribute_not_exists(pk) OR call_id = :call",
        {":run": delegation.run_id, ":call": delegation.call_id, ":token": delegation.task_token},
    )
    apply(noted)


def find_delegation(execution_name: str) -> Delegation | None:
    item = get(delegation_key(execution_name))
    return Delegation(RunId(item["run_id"]), CallId(item["call_id"]), item["task_token"]) if item else None


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
