"""The AskPerson state: shows a question and keeps the task token on the server."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from stepagent.asking import ask
from stepagent.observe import observed


class AskRequest(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)  # the token is as good as a password

    run_id: str
    call_id: str
    task_token: str


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = AskRequest.model_validate(event)
    ask(request.run_id, request.call_id, request.task_token)
    return {}
