"""The AskPerson state: shows a question and keeps the task token on the server."""

from typing import Any

from pydantic import BaseModel

from stepagent.asking import ask


class AskRequest(BaseModel):
    run_id: str
    call_id: str
    task_token: str


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = AskRequest.model_validate(event)
    ask(request.run_id, request.call_id, request.task_token)
    return {}
