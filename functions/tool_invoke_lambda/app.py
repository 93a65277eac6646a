"""Runs calls of tools of kind `external_lambda`: functions of other stacks, by their ARN."""

from typing import Any

from stepagent.functions import invoke_function
from stepagent.observe import observed
from stepagent.tools.execution import Invocation, execute


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    execute(event["run_id"], event["call_id"], call_function)
    return {"call_id": event["call_id"]}


def call_function(invocation: Invocation) -> Any:
    return invoke_function(invocation.tool.target, invocation.arguments, invocation.deadline)
