"""The target of the rule on workflows that ended: their output becomes the result of the call that started them."""

from typing import Any

from pydantic import AliasPath, BaseModel, Field

from stepagent.delegation import finish_workflow
from stepagent.observe import observed


class EndedWorkflow(BaseModel):
    """The change of an execution's status, as EventBridge tells of it."""

    name: str = Field(validation_alias=AliasPath("detail", "name"))
    execution_arn: str = Field(validation_alias=AliasPath("detail", "executionArn"))


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    ended = EndedWorkflow.model_validate(event)
    finish_workflow(ended.name, ended.execution_arn)
    return {}
