"""Sessions, runs and turns in the record."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from stepagent.clock import now
from stepagent.errors import NotFound, RecordConflict
from stepagent.messages import Message, message_adapter
from stepagent.runs import (
    ENDED,
    Call,
    Decision,
    Outcome,
    Principal,
    Run,
    RunKey,
    RunStatus,
    SessionKey,
    TurnRecord,
)
from stepagent.store import journal
from stepagent.store.idempotency import Begun, IdempotencyKey, put_begun
from stepagent.store.items import (
    MESSAGES,
    OWNED_RUN,
    message_key,
    owned_run_key,
    owner_pk,
    pack,
    run_key,
    session_key,
    session_pk,
    turn_key,
    unpack,
)
from stepagent.store.keys import count_spent
from stepagent.store.table import Operation, Refused, apply, change, get, put, query, query_back, transact
from stepagent.usage import Usage

_messages: TypeAdapter[list[Message]] = TypeAdapter(list[Message])

_COUNTERS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_STATIC = {
    *("run_id", "session_id", "owner", "agent", "tools", "versions", "system", "metadata", "user"),
    *("created_at", "parent", "top", "depth", "used_key"),
}
_NOT_ENDED = "NOT (#status IN (:completed, :failed, :cancelled))"
_ENDED_VALUES = {f":{status.value}": status.value for status in ENDED}


class Session(NamedTuple):
    """What a new run must know of its session: how many runs there were, and which one is active."""

    runs: int
    active: RunKey | None


def load_session(session: SessionKey) -> Session:
    item = get(session_key(session)) or {}
    active = item.get("active_run")
    return Session(int(item.get("runs", 0)), RunKey.parse(active) if active else None)


def create_run(run: Run, messages: Sequence[Message], idempotency: IdempotencyKey | None = None) -> None:
    """Writes the run, its first messages and its first event, and takes the session, all at once or not at all.

    With an idempotency key it takes that as well, so that no second run begins with it.

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
    # One item for all of them: a long conversation has more messages than a transaction may have items.
    said = put(message_key(key, 0), {"type": "messages", **pack("body", _messages.dump_json(list(messages)).decode())})
    # The runs of called agents are reached through those that called them.
    listed = [] if run.parent else [put(owned_run_key(run.owner, run.created_at, run.run_id), {"run_id": run.run_id})]
    keyed = [put_begun(idempotency, Begun(run.run_id))] if idempotency else []
    transact([taken, written, said, journal.first_event(run), *listed, *keyed])


def load_run(key: RunKey) -> Run | None:
    item = get(run_key(key))
    return _run(item) if item else None


def require_run(run_id: str) -> Run:
    """One run by its id.

    Raises:
        NotFound: there is none, or the id is none.
    """
    try:
        run = load_run(RunKey.parse(run_id))
    except ValueError:
        run = None
    if run is None:
        raise NotFound(f"There is no run {run_id[:80]!r}.")
    return run


def load_history(session: SessionKey) -> list[Message | Call]:
    """The whole conversation of a session in order: messages, and after each reply the calls that it asked for."""
    return [entry for item in query(session_pk(session), MESSAGES) for entry in _entries(item)]


def load_conversation(run: RunKey) -> list[Message | Call]:
    """The part of a session's conversation that belongs to one run, in order. It grows at its end only."""
    prefix = f"{MESSAGES}{run.ordinal:06d}#"
    return [entry for item in query(session_pk(run.session), prefix) for entry in _entries(item)]


def list_runs(owner: Principal, most: int, before: Run | None = None) -> list[RunKey]:
    """Where the runs stand that a principal began, the newest first; with `before`, those that are older than that."""
    start = owned_run_key(owner, before.created_at, before.run_id) if before else None
    return [RunKey.parse(entry["run_id"]) for entry in query_back(owner_pk(owner), OWNED_RUN, most, start)]


class Claim(NamedTuple):
    """A turn that is ours to run (`decision` None), or the decision that it came to already."""

    claim_id: str
    attempt: int
    decision: Decision | None


def claim_turn(run: Run, turn: int, claim_id: str) -> Claim:
    """Takes a turn. Whoever took it before and has stored no decision loses it: its store will be refused."""
    claimed = change(
        turn_key(run.key, turn),
        "SET claim_id = :claim, claimed_at = :now ADD attempts :one",
        "attribute_not_exists(decision)",
        {":claim": claim_id, ":now": now().isoformat(), ":one": 1},
    )
    try:
        return Claim(claim_id, int(apply(claimed)["attempts"]), None)
    except Refused as refused:
        stored = refused.item or get(turn_key(run.key, turn)) or {}
        return Claim(claim_id, int(stored["attempts"]), Decision.model_validate_json(stored["decision"]))


def store_turn(run: Run, claim_id: str, record: TurnRecord) -> None:
    """Writes what a turn came to, all at once or not at all; a run that ended with it frees its session.

    Raises:
        RecordConflict: the turn was taken over or the run has ended meanwhile; nothing is written.
    """
    key, turn = run.key, record.decision.turn
    decided = change(
        turn_key(key, turn),
        "SET decision = :decision, #usage = :usage, decided_at = :now",
        "claim_id = :claim AND attribute_not_exists(decision)",
        {
            ":decision": record.decision.model_dump_json(),
            ":usage": record.usage.model_dump_json(),
            ":now": now().isoformat(),
            ":claim": claim_id,
        },
    )
    replied = [put_message(key, turn, record.reply)] if record.reply else []
    called = [put_call(key.session, call) for call in record.calls]
    counted = change(run_key(key), *_progress(turn, record))
    freed = [_free_session(key)] if record.outcome else []
    transact([decided, *replied, *called, counted, *count_spent(run, record.usage), *freed])


def count_usage(run: Run, usage: Usage) -> None:
    """Adds what was spent without a result, such as by a try that broke off."""
    if usage != Usage():
        transact([add_usage(run.key, usage), *count_spent(run, usage)])


def add_usage(run: RunKey, usage: Usage) -> Operation:
    """Adds what was spent, whether or not the run has ended."""
    expression, values = _counting(usage)
    return change(run_key(run), expression, "attribute_exists(pk)", values)


def close_run(run: Run, outcome: Outcome) -> bool:
    """Ends a run and frees its session; False where it had ended before, which then stands."""
    expression, values = _ending(outcome)
    ended = change(run_key(run.key), f"SET {expression}", _NOT_ENDED, {**values, **_ENDED_VALUES})
    try:
        transact([ended, _free_session(run.key)])
    except RecordConflict:
        return False
    return True


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


def put_message(run: RunKey, turn: int, message: Message) -> Operation:
    return put(message_key(run, turn), {"type": "message", **pack("body", message.model_dump_json())})


def put_call(session: SessionKey, call: Call) -> Operation:
    values: dict[str, Any] = {
        "type": "call",
        "status": call.status,
        **pack("body", call.model_dump_json(exclude={"status", "approved", "edited", "result"})),
    }
    if call.result:
        values |= pack("result", call.result.model_dump_json())
    return put(message_key(RunKey(session, call.key.ordinal), call.key.turn, call.key.position + 1), values)


def call_from_item(item: dict[str, Any]) -> Call:
    body: dict[str, Any] = json.loads(unpack(item, "body") or "{}")
    edited, result = unpack(item, "edited_arguments"), unpack(item, "result")
    changes: dict[str, Any] = {
        "status": item["status"],
        "approved": item.get("approved", ""),
        "result": json.loads(result) if result else None,
    }
    if result and changes["approved"]:  # it waited for that before it ran, which its function does not know
        changes["result"]["waited_s"] += int(item.get("waited_s", 0))
    return Call.model_validate(body | changes | ({"arguments": json.loads(edited), "edited": True} if edited else {}))


def _entries(item: dict[str, Any]) -> Sequence[Message | Call]:
    if item["type"] == "call":
        return [call_from_item(item)]
    body = unpack(item, "body") or ""
    return _messages.validate_json(body) if item["type"] == "messages" else [message_adapter.validate_json(body)]


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
        }
    )


def _usage(item: dict[str, Any]) -> dict[str, Any]:
    counted: dict[str, Any] = {name: int(item[name]) for name in _COUNTERS}
    cost = None if item.get("cost_unknown") else item.get("cost_usd", 0)
    return counted | {"complete": not item.get("usage_incomplete"), "cost_usd": cost}


def _progress(turn: int, record: TurnRecord) -> tuple[str, str, dict[str, Any]]:
    sets, values = ["turns = :turn"], {":turn": turn, **_ENDED_VALUES}
    if record.outcome:
        ending, more = _ending(record.outcome)
        sets, values = [*sets, ending], values | more
    if record.failure:
        sets, values = [*sets, "failure = :failure"], values | {":failure": record.failure.model_dump_json()}
    expression, more = _counting(record.usage, *sets)
    return expression, _NOT_ENDED, values | more


def _counting(usage: Usage, *sets: str) -> tuple[str, dict[str, Any]]:
    """The expression that adds what was spent to a run's counters, beside what it sets."""
    amounts = {name: getattr(usage, name) for name in _COUNTERS} | {"cost_usd": usage.cost_usd or 0}
    values: dict[str, Any] = {f":{name}": amount for name, amount in amounts.items()}
    unknown = {"usage_incomplete": not usage.complete, "cost_unknown": usage.cost_usd is None}
    marks = [f"{name} = :true" for name, so in unknown.items() if so]
    if marks:
        values[":true"] = True
    setting = f"SET {', '.join([*sets, *marks])} " if sets or marks else ""
    return f"{setting}ADD {', '.join(f'{name} :{name}' for name in amounts)}", values


def _ending(outcome: Outcome) -> tuple[str, dict[str, Any]]:
    packed = pack("answer", outcome.answer)
    values: dict[str, Any] = {":status": outcome.status, ":reason": outcome.stop_reason, ":ended": now().isoformat()}
    sets = "#status = :status, stop_reason = :reason, ended_at = :ended"
    for name, text in packed.items():
        sets, values = f"{sets}, {name} = :answer", values | {":answer": text}
    if outcome.failure:
        sets, values = f"{sets}, failure = :failure", values | {":failure": outcome.failure.model_dump_json()}
    return sets, values


def _free_session(run: RunKey) -> Operation:
    return change(session_key(run.session), "REMOVE active_run", "attribute_exists(pk)", {})
