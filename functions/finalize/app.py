"""The RecordFailure state, and the target of the rule on executions that died: closes a run."""

from typing import Any

from pydantic import AliasChoices, AliasPath, BaseModel, Field

from stepagent.ending import finalize


class EndedExecution(BaseModel):
    """From the state machine, or from EventBridge, where the execution's name is the run's id."""

    run_id: str = Field(validation_alias=AliasChoices("run_id", AliasPath("detail", "name")))
    error: str = Field(validation_alias=AliasChoices("error", AliasPath("detail", "status")))


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    ended = EndedExecution.model_validate(event)
    finalize(ended.run_id, ended.error)
    return {}
