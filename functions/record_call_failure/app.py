"""The RecordCallFailure state: a call that failed outside its function gets its result."""

from typing import Any

from pydantic import BaseModel

from stepagent.call_failures import record_failure
from stepagent.observe import observed


class CallFailure(BaseModel):
    run_id: str
    call_id: str
    error: str


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    failure = CallFailure.model_validate(event)
    record_failure(failure.run_id, failure.call_id, failure.error)
    return {}
