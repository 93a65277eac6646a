"""Sessions and runs in the record."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from stepagent.clock import now
from stepagent.errors import NotFound, RecordConflict
from stepagent.messages import Message
from stepagent.runs import (
    ENDED,
    ChosenStrategy,
    Outcome,
    Principal,
    Run,
    RunKey,
    RunStatus,
    SessionKey,
)
from stepagent.store import journal
from stepagent.store.conversation import put_messages
from stepagent.store.idempotency import Begun, IdempotencyKey, put_begun
from stepagent.store.items import (
    OWNED_RUN,
    assign,
    owned_run_key,
    owner_pk,
    pack,
    run_key,
    session_key,
    unpack,
)
from stepagent.store.keys import count_spent
from stepagent.store.table import Operation, Refused, apply, change, get, put, query_back, transact
from stepagent.usage import Usage

_COUNTERS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_STATIC = {
    *("run_id", "session_id", "owner", "agent", "tools", "versions", "system", "metadata", "user"),
    *("created_at", "parent", "top", "depth", "used_key", "batch", "reply_to"),
}
NOT_ENDED = "NOT (#status IN (:completed, :failed, :cancelled))"
ENDED_VALUES = {f":{status.value}": status.value for status in ENDED}


class Session(NamedTuple):
    """What a new run must know of its session: how many runs there were, and which one is active."""

    runs: int
    active: RunKey | None


def load_session(session: SessionKey) -> Session:
    item = get(session_key(session)) or {}
    active = item.get("active_run")
    return Session(int(item.get("runs", 0)), RunKey.parse(active) if active else None)


def create_run(
    run: Run, messages: Sequence[Message], idempotency: IdempotencyKey | None = None, beside: Sequence[Operation] = ()
) -> None:
    """Writes the run, its first messages and its first event, and takes the session, all at once or not at all.

    With an idempotency key it takes that as well, so that no second run begins with it; `beside` is done with it, too.

    Raises:
        RecordConflict: another run has taken the session, or the key.
    """
    key = run.key
    taken = change(
        session_key(key.session),
        "SET runs = :ordinal, active_run = :run, session_id = :session, #owner = :owner",
        "attribute_not_exists(active_run) AND (attribute_not_exists(runs) OR runs < :ordinal)",
        {":ordinal": key.ordinal, ":run": run.run_id, ":session": run.session_id, ":owner": run.owner},
    )
    body = pack("body", run.model_dump_json(include=_STATIC))
    written = put(run_key(key), {**body, "status": RunStatus.RUNNING, "turns": 0, **dict.fromkeys(_COUNTERS, 0)})
    # The runs of called agents are reached through those that called them.
    listed = [] if run.parent else [put(owned_run_key(run.owner, run.created_at, run.run_id), {"run_id": run.run_id})]
    keyed = [put_begun(idempotency, Begun(run.run_id))] if idempotency else []
    transact([taken, written, put_messages(key, messages), journal.first_event(run), *listed, *keyed, *beside])


def load_run(key: RunKey) -> Run | None:
    item = get(run_key(key))
    return _run(item) if item else None


def require_run(run_id: str) -> Run:
    """One run by its id.

    Raises:
        NotFound: there is none, or the id is none.
    """
    try:
        key = RunKey.parse(run_id)
    except ValueError:
        key = None
    run = load_run(key) if key else None
    if run is None:
        raise NotFound(f"There is no run {run_id[:80]!r}.")
    return run


def list_runs(owner: Principal, most: int, before: Run | None = None) -> list[RunKey]:
    """Where the runs stand that a principal began, the newest first; with `before`, those that are older than that."""
    start = owned_run_key(owner, before.created_at, before.run_id) if before else None
    return [RunKey.parse(entry["run_id"]) for entry in query_back(owner_pk(owner), OWNED_RUN, most, start)]


def count_usage(run: Run, usage: Usage) -> None:
    """Adds what was spent without a result, such as by a try that broke off."""
    if usage != Usage():
        transact([add_usage(run.key, usage), *count_spent(run, usage)])


def add_usage(run: RunKey, usage: Usage) -> Operation:
    """Adds what was spent, whether or not the run has ended."""
    expression, values = counting(usage)
    return change(run_key(run), expression, "attribute_exists(pk)", values)


def close_run(run: Run, outcome: Outcome) -> bool:
    """Ends a run and frees its session; False where it had ended before, which then stands."""
    expression, values = ending(outcome)
    ended = change(run_key(run.key), f"SET {expression}", NOT_ENDED, {**values, **ENDED_VALUES})
    try:
        transact([ended, free_session(run.key)])
    except RecordConflict:
        return False
    return True


def mark_told(run: Run) -> None:
    """Notes that the end of a run was told to those who do not follow it."""
    apply(change(run_key(run.key), "SET told = :true", "attribute_exists(pk)", {":true": True}))


def count_execution(run: Run) -> Run:
    """Gives a run one execution more, in place of its last one; whoever counts second finds what the first one did."""
    counted = change(
        run_key(run.key),
        "SET executions = :next, resumed_at = :now",
        "attribute_exists(pk) AND (attribute_not_exists(executions) OR executions < :next)",
        {":next": run.executions + 1, ":now": now().isoformat()},
    )
    try:
        return _run(apply(counted))
    except Refused:
        return require_run(run.run_id)


def store_strategy(run: Run, chosen: ChosenStrategy, usage: Usage) -> Run:
    """The run with how it works, which is noted with what it cost to choose; a choice that stands there already stays.

    A run that works by a plan is left to another execution, which is counted at once: so who finds that choice knows
    that the execution may have to be started.
    """
    sets = ["chosen = :chosen"]
    values: dict[str, Any] = {":chosen": chosen.model_dump_json(), **ENDED_VALUES}
    changes: dict[str, Any] = {"chosen": chosen, "usage": run.usage + usage}
    if chosen.strategy == "plan":
        moment = now()
        changes |= {"executions": run.executions + 1, "resumed_at": moment}
        sets += ["executions = :next", "resumed_at = :now"]
        values |= {":next": run.executions + 1, ":now": moment.isoformat()}
    expression, counted = counting(usage, *sets)
    noted = change(run_key(run.key), expression, f"{NOT_ENDED} AND attribute_not_exists(chosen)", values | counted)
    try:
        transact([noted, *count_spent(run, usage)])
    except RecordConflict:  # what was asked is paid for all the same
        count_usage(run, usage)
        return require_run(run.run_id)
    return run.model_copy(update=changes)


def _run(item: dict[str, Any]) -> Run:
    body: dict[str, Any] = json.loads(unpack(item, "body") or "{}")
    # Each entry begins with when it was asked, so that questions are known in that order.
    pending = [entry.partition("#")[2] for entry in sorted(item.get("pending", ()))]
    status = RunStatus(item["status"])
    failure = item.get("failure")
    return Run.model_validate(
        body
        | {
            "status": RunStatus.WAITING if pending and status not in ENDED else status,
            "ended_at": item.get("ended_at"),
            "stop_reason": item.get("stop_reason"),
            "failure": json.loads(failure) if failure else None,
            "answer": unpack(item, "answer") or "",
            "usage": _usage(item),
            "turns": int(item["turns"]),
            "pending": pending,
            "executions": int(item.get("executions", 1)),
            "resumed_at": item.get("resumed_at"),
            "chosen": json.loads(item["chosen"]) if "chosen" in item else None,
            "plan": json.loads(item["plan"]) if "plan" in item else None,
            "told": bool(item.get("told")),
        }
    )


def _usage(item: dict[str, Any]) -> dict[str, Any]:
    counted: dict[str, Any] = {name: int(item[name]) for name in _COUNTERS}
    cost = None if item.get("cost_unknown") else item.get("cost_usd", 0)
    return counted | {"complete": not item.get("usage_incomplete"), "cost_usd": cost}


def counting(usage: Usage, *sets: str) -> tuple[str, dict[str, Any]]:
    """The expression that adds what was spent to a run's counters, beside what it sets."""
    amounts = {name: getattr(usage, name) for name in _COUNTERS} | {"cost_usd": usage.cost_usd or 0}
    values: dict[str, Any] = {f":{name}": amount for name, amount in amounts.items()}
    unknown = {"usage_incomplete": not usage.complete, "cost_unknown": usage.cost_usd is None}
    marks = [f"{name} = :true" for name, so in unknown.items() if so]
    if marks:
        values[":true"] = True
    setting = f"SET {', '.join([*sets, *marks])} " if sets or marks else ""
    return f"{setting}ADD {', '.join(f'{name} :{name}' for name in amounts)}", values


def ending(outcome: Outcome) -> tuple[str, dict[str, Any]]:
    """The assignments that end a run, without SET, and their values."""
    answered, answer = assign("answer", outcome.answer)
    sets = f"#status = :status, stop_reason = :reason, ended_at = :ended, {answered}"
    values = {":status": outcome.status, ":reason": outcome.stop_reason, ":ended": now().isoformat(), **answer}
    if outcome.failure:
        sets, values = f"{sets}, failure = :failure", values | {":failure": outcome.failure.model_dump_json()}
    return sets, values


def free_session(run: RunKey) -> Operation:
    """Lets another run begin in the session. For the run that is active in it."""
    return change(session_key(run.session), "REMOVE active_run", "attribute_exists(pk)", {})
