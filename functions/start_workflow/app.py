"""The RunWorkflow state: starts what answers a call, and keeps the task token on the server."""

from typing import Any

from pydantic import BaseModel

from stepagent.delegation import start_workflow


class StartRequest(BaseModel):
    run_id: str
    call_id: str
    task_token: str


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = StartRequest.model_validate(event)
    start_workflow(request.run_id, request.call_id, request.task_token)
    return {}
