"""Lambda functions of others, invoked with arguments as their event."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from stepagent.clock import now
from stepagent.errors import ToolError

_ERROR_CHARS = 1_000


def invoke_function(arn: str, arguments: Mapping[str, Any], deadline: datetime) -> Any:
    """The value that a function returns for these arguments.

    Raises:
        ToolError: it cannot be invoked, raised, answered with something else than JSON, or not before the deadline.
    """
    left_s = max(1.0, (deadline - now()).total_seconds())
    # One attempt: whether a function that did not answer had an effect is not known here.
    config = Config(connect_timeout=5, read_timeout=left_s, retries={"total_max_attempts": 1})
    try:
        answer = boto3.client("lambda", config=config).invoke(FunctionName=arn, Payload=json.dumps(arguments).encode())
        content = answer["Payload"].read()
    except ReadTimeoutError as error:
        raise ToolError("The function did not answer in time. Its effects are unknown.") from error
    except ClientError as error:
        raise ToolError(f"The function cannot be invoked ({error.response['Error']['Code']}).") from error
    except BotoCoreError as error:
        raise ToolError(f"The function cannot be reached ({type(error).__name__}).") from error
    if "FunctionError" in answer:
        raise ToolError(f"The function failed: {_error_text(content)}")
    try:
        return json.loads(content or b"null")
    except ValueError as error:
        raise ToolError("The function returned something that is not JSON.") from error


def _error_text(content: bytes) -> str:
    """Class and message, without the stack trace."""
    try:
        error = json.loads(content)
        return f"{error.get('errorType', 'Error')}: {error.get('errorMessage', '')}"[:_ERROR_CHARS]
    except (ValueError, AttributeError):
        return "it did not say why"
