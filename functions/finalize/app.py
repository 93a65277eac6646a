"""The RecordFailure state, and the target of the rule on executions that died: closes a run, or has it go on."""

from typing import Any

from pydantic import BaseModel, TypeAdapter

from stepagent.ending import execution_ended, finalize
from stepagent.executions import EndedExecution
from stepagent.observe import observed


class FailedRun(BaseModel):
    """From the state machine."""

    run_id: str
    error: str


_event: TypeAdapter[FailedRun | EndedExecution] = TypeAdapter(FailedRun | EndedExecution)


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    match _event.validate_python(event):
        case FailedRun() as failed:
            finalize(failed.run_id, failed.error)
        case EndedExecution() as ended:
            execution_ended(ended.name, ended.why)
    return {}
