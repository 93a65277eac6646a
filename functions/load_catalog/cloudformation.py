"""What CloudFormation asks of a custom resource, and how it is told the outcome."""

import json
import urllib.request
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, Field

from stepagent.errors import ConfigurationError
from stepagent.observe import logger

_PHYSICAL_ID = "catalog"  # always the same, or an update would be followed by a deletion of the old one
_REASON_CHARS = 1_000  # an answer has 4 KB at most
_ANSWER_S = 10


class StackRequest(BaseModel):
    """The event of a deploy. By hand `{}` is enough: nobody waits for the answer then."""

    request_type: Literal["Create", "Update", "Delete"] = Field("Update", validation_alias="RequestType")
    response_url: str = Field("", validation_alias="ResponseURL")
    stack_id: str = Field("", validation_alias="StackId")
    request_id: str = Field("", validation_alias="RequestId")
    logical_resource_id: str = Field("", validation_alias="LogicalResourceId")


def serve(request: StackRequest, work: Callable[[], None]) -> dict[str, Any]:
    """Does the work, unless the stack is being deleted, and tells CloudFormation how it went; returns the same.

    Raises:
        OSError: CloudFormation did not take the answer; Lambda then does all of it again.
    """
    failure = _attempt(work) if request.request_type != "Delete" else ""
    answer = {
        "Status": "FAILED" if failure else "SUCCESS",
        "Reason": failure[:_REASON_CHARS],
        "PhysicalResourceId": _PHYSICAL_ID,
        "StackId": request.stack_id,
        "RequestId": request.request_id,
        "LogicalResourceId": request.logical_resource_id,
    }
    if request.response_url:
        _put(request.response_url, answer)
    return answer


def _attempt(work: Callable[[], None]) -> str:
    """Why the work failed, "" where it did not. Without an answer a deploy would wait for its time-out."""
    try:
        work()
    except ConfigurationError as error:
        return error.message
    except Exception as error:
        logger.exception("catalog not loaded")
        return f"The catalog could not be loaded ({type(error).__name__}); the function's log says why."
    return ""


def _put(url: str, answer: dict[str, Any]) -> None:
    # The URL is signed for a request without a content type.
    headers = {"Content-Type": ""}
    request = urllib.request.Request(url, json.dumps(answer).encode(), headers, method="PUT")  # noqa: S310 (from AWS)
    urllib.request.urlopen(request, timeout=_ANSWER_S).close()  # noqa: S310
