"""The Think state: asks the model once and returns a small decision."""

from typing import Any

from pydantic import BaseModel

from stepagent.think import think


class ThinkRequest(BaseModel):
    run_id: str
    turn: int


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = ThinkRequest.model_validate(event)
    return think(request.run_id, request.turn).model_dump(mode="json")
