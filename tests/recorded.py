"""Runs in the record, brought as far as a test needs them."""

from stepagent.messages import AssistantMessage, ToolCall, UserMessage
from stepagent.runs import Call, Decision, Run, TurnRecord
from stepagent.store.runs import create_run
from stepagent.store.turns import claim_turn, store_turn
from stepagent.usage import Usage

NOTHING_SPENT = Usage()


def begin(run: Run, *calls: Call) -> Run:
    """Writes the run, and a first turn that made these calls if there are any."""
    create_run(run, [UserMessage(text="Do it.")])
    if calls:
        act(run, *calls)
    return run


def act(run: Run, *calls: Call, usage: Usage = NOTHING_SPENT) -> None:
    """Writes the turn that made these calls."""
    turn = calls[0].key.turn
    reply = AssistantMessage(calls=tuple(ToolCall(call_id=call.call_id, name=call.name) for call in calls))
    decision = Decision(run_id=run.run_id, turn=turn, next="act")
    store_turn(run, claim_turn(run, turn, "claim").claim_id, TurnRecord(decision, reply, calls, usage))
