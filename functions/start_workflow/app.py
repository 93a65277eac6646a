"""The RunWorkflow state: starts what answers a call, and keeps the task token on the server."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from stepagent.delegation import start_workflow
from stepagent.observe import observed


class StartRequest(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)  # the token is as good as a password

    run_id: str
    call_id: str
    task_token: str


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = StartRequest.model_validate(event)
    start_workflow(request.run_id, request.call_id, request.task_token)
    return {}
