"""Runs calls of tools of kind `http`: REST calls that rows of the catalog describe."""

from typing import Any

from stepagent.observe import observed
from stepagent.tools.execution import Invocation, execute
from stepagent.tools.http_call import call_http


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    execute(event["run_id"], event["call_id"], call_server)
    return {"call_id": event["call_id"]}


def call_server(invocation: Invocation) -> Any:
    assert invocation.tool.http  # a row of this kind has it
    return call_http(invocation.tool.http, invocation.arguments, invocation.deadline)
