"""What becomes of requests to Step Functions that it does not take."""

from collections.abc import Iterator

import boto3
import pytest
from botocore.stub import Stubber

from stepagent import executions
from stepagent.errors import RecordUnavailable, StepAgentError, ToolError
from stepagent.executions import start_workflow_execution

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:theirs"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client = boto3.client("stepfunctions", region_name="eu-west-1")
    monkeypatch.setattr(executions, "client", lambda: client)
    with Stubber(client) as stub:
        yield stub


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ThrottlingException", RecordUnavailable),  # the state is entered again for this class alone
        ("ExecutionLimitExceeded", RecordUnavailable),
        ("AccessDeniedException", ToolError),
        ("StateMachineDoesNotExist", ToolError),
        ("InvalidExecutionInput", ToolError),
    ],
)
def test_workflow_that_is_not_taken_is_tried_again_where_that_helps(
    service: Stubber, code: str, expected: type[StepAgentError]
) -> None:
    service.add_client_error("start_execution", code)
    with pytest.raises(expected, match=code):
        start_workflow_execution(MACHINE, "run_abc_1-call_1_1_0", {})


def test_workflow_that_has_ended_already_is_named(service: Stubber) -> None:
    service.add_client_error("start_execution", "ExecutionAlreadyExists")
    arn = f"{MACHINE.replace('stateMachine', 'execution')}:name"
    described = {"executionArn": arn, "stateMachineArn": MACHINE, "status": "SUCCEEDED", "startDate": 0}
    service.add_response("describe_execution", described, {"executionArn": arn})
    assert start_workflow_execution(MACHINE, "name", {}) == arn
