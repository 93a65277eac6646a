"""The RunInput state: starts the run that answers an input of a batch, and keeps the task token on the server."""

from typing import Any

from stepagent.batches.models import InputRef
from stepagent.batches.running import run_input
from stepagent.observe import observed


class InputToRun(InputRef):
    task_token: str


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    given = InputToRun.model_validate(event)
    run_input(given, given.task_token)
    return {}
