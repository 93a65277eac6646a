"""Turns in the record: whoever took one last stores what it came to, and nobody else does."""

from typing import Any, NamedTuple

from stepagent.clock import now
from stepagent.runs import Decision, Run, TurnRecord
from stepagent.store.conversation import put_call, put_message
from stepagent.store.items import run_key, turn_key
from stepagent.store.keys import count_spent
from stepagent.store.runs import ENDED_VALUES, NOT_ENDED, counting, ending, free_session
from stepagent.store.table import Refused, apply, change, get, transact


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
    freed = [free_session(key)] if record.outcome else []
    transact([decided, *replied, *called, counted, *count_spent(run, record.usage), *freed])


def _progress(turn: int, record: TurnRecord) -> tuple[str, str, dict[str, Any]]:
    """What the turn changes of its run: the expression, its condition, and their values."""
    sets, values = ["turns = :turn"], {":turn": turn, **ENDED_VALUES}
    if record.outcome:
        ended, more = ending(record.outcome)
        sets, values = [*sets, ended], values | more
    if record.plan:
        sets, values = [*sets, "#plan = :plan"], values | {":plan": record.plan.model_dump_json()}
    if record.failure:
        sets, values = [*sets, "failure = :failure"], values | {":failure": record.failure.model_dump_json()}
    expression, more = counting(record.usage, *sets)
    return expression, NOT_ENDED, values | more
