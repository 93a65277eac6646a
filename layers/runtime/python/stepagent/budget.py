"""What stops a run before its model does: the bounds of its agent, and calls that go round in circles. Pure."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from stepagent.agents import Limits
from stepagent.messages import CallId, Message, ToolMessage
from stepagent.runs import Call, Run, StopReason

_Signature = tuple[str, str, str, tuple[str, ...]]  # of a call: name, arguments, text and images of its result

_LEAST_USD = Decimal("0.000001")  # where nothing is left: a limit is above zero
_NOTICED_BEFORE_END = 2  # turns in which the model is told before a circle ends the run
_NOTICE = "\n\n(You have made this same call {times} times, with this same result. Do something else, or answer.)"


class Reached(NamedTuple):
    """Why a run must land, in words for its model and for a person."""

    reason: StopReason
    to_model: str
    to_person: str


_WORDS: dict[StopReason, tuple[str, str]] = {
    StopReason.MAX_TURNS: ("You have used all the steps that you may take.", "this is the limit of steps"),
    StopReason.MAX_CALLS: ("You have made all the tool calls that you may make.", "the tool calls are used up"),
    StopReason.MAX_TOKENS: ("You have used all the tokens that you may use.", "the tokens are used up"),
    StopReason.MAX_COST: ("The money for this task is spent.", "the money for it is spent"),
    StopReason.MAX_WALL_TIME: ("The time for this task is over.", "the time for it is over"),
    StopReason.LOOP: ("You are repeating a call that tells you nothing new.", "the same call was made over and over"),
}


def reached(run: Run, turn: int, entries: Sequence[Message | Call], moment: datetime) -> Reached | None:
    """The bound that this turn has reached, the first where several are."""
    limits, calls = run.agent.limits, calls_of(run, entries)
    repeats = _repeats(calls)
    last = [repeats[call.call_id] for call in calls if call.key.turn == turn - 1]
    checks = {
        StopReason.MAX_TURNS: turn > limits.max_turns,
        StopReason.MAX_CALLS: len(calls) >= limits.max_calls,
        StopReason.MAX_TOKENS: _is_spent(run.usage.known_tokens, limits.max_total_tokens),
        StopReason.MAX_COST: _is_spent(run.usage.cost_usd, limits.max_cost_usd),
        StopReason.MAX_WALL_TIME: _is_spent(elapsed_s(run, calls, moment), limits.max_wall_s),
        StopReason.LOOP: max(last, default=0) >= limits.max_repeats,
    }
    return next((Reached(reason, *_WORDS[reason]) for reason, is_so in checks.items() if is_so), None)


def calls_of(run: Run, entries: Sequence[Message | Call]) -> list[Call]:
    """The calls that this run asked for, not those of earlier runs of its session."""
    ordinal = run.key.ordinal
    return [entry for entry in entries if isinstance(entry, Call) and entry.key.ordinal == ordinal]


def elapsed_s(run: Run, calls: Sequence[Call], moment: datetime) -> float:
    """Seconds since the run began, less those that it waited for people."""
    return (moment - run.created_at).total_seconds() - waited_s(calls)


def waited_s(calls: Sequence[Call]) -> int:
    """Seconds for which a run with these calls waited for people; those of one turn wait at the same time."""
    waited: defaultdict[int, int] = defaultdict(int)
    for call in calls:
        if call.result:
            waited[call.key.turn] = max(waited[call.key.turn], call.result.waited_s)
    return sum(waited.values())


def time_left_s(run: Run, calls: Sequence[Call], moment: datetime) -> float:
    """Seconds until the run's time is over."""
    longest = run.agent.limits.max_wall_s
    return math.inf if longest is None else longest - elapsed_s(run, calls, moment)


def within_what_is_left(limits: Limits, run: Run, shares: int = 1) -> Limits:
    """The limits of an agent that a run asks: its own, and no more than the run has left of tokens and money.

    With `shares` it is one of so many that begin together, each of which has its part of that.
    """
    own, spent = run.agent.limits, run.usage
    bounds: dict[str, int | Decimal] = {}
    if own.max_total_tokens is not None:
        left = max(1, (own.max_total_tokens - spent.total_tokens) // shares)
        bounds["max_total_tokens"] = min(left, limits.max_total_tokens or left)
    if own.max_cost_usd is not None and spent.cost_usd is not None:
        left_usd = max(_LEAST_USD, (own.max_cost_usd - spent.cost_usd) / shares)
        bounds["max_cost_usd"] = min(left_usd, limits.max_cost_usd or left_usd)
    return limits.model_copy(update=bounds)


def with_notices(run: Run, messages: Sequence[Message], entries: Sequence[Message | Call]) -> list[Message]:
    """The conversation in which a result that came again and again says so."""
    notices = _notices(run, calls_of(run, entries))
    return [
        message.model_copy(update={"text": message.text + notices[message.call_id]})
        if isinstance(message, ToolMessage) and message.call_id in notices
        else message
        for message in messages
    ]


def _is_spent(used: Decimal | float | None, limit: Decimal | float | None) -> bool:
    """Whether a limit is reached. What is not known, such as a cost, cannot be bounded, and counts as spent."""
    return limit is not None and (used is None or used >= limit)


def _notices(run: Run, calls: Sequence[Call]) -> dict[CallId, str]:
    first = max(2, run.agent.limits.max_repeats - _NOTICED_BEFORE_END)
    return {call_id: _NOTICE.format(times=times) for call_id, times in _repeats(calls).items() if times >= first}


def _repeats(calls: Sequence[Call]) -> dict[CallId, int]:
    """For each call: in how many turns, up to its own, the same call had the same result."""
    turns: defaultdict[_Signature, set[int]] = defaultdict(set)
    repeats: dict[CallId, int] = {}
    for call in sorted(calls, key=lambda call: call.key):
        same = turns[_signature(call)]
        same.add(call.key.turn)
        repeats[call.call_id] = len(same)
    return repeats


def _signature(call: Call) -> _Signature:
    if call.result is None:
        return call.name, json.dumps(call.arguments, sort_keys=True), "", ()
    # The preview of a long result names its call, which makes it no other result.
    text = call.result.text.replace(call.call_id, "") if call.result.kept_bytes else call.result.text
    return call.name, json.dumps(call.arguments, sort_keys=True), text, call.result.images
