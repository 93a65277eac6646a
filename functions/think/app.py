"""The Think state: asks the model once and returns a small decision."""

import random
from typing import Any

from pydantic import BaseModel
from snapshot_restore_py import register_after_restore

from stepagent.observe import observed
from stepagent.think import Machine, think

register_after_restore(random.seed)  # or all that start from one snapshot would wait alike before they try again


class ThinkRequest(BaseModel):
    """`machine` is the state machine that asks."""

    run_id: str
    turn: int
    machine: Machine = "agent"


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = ThinkRequest.model_validate(event)
    return think(request.run_id, request.turn, request.machine).model_dump(mode="json")
