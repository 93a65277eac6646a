"""Agents and tools as data: what the catalog holds and what a run keeps a copy of."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stepagent.models import Frozen

MAX_CALLS_PER_TURN = 20  # twenty call references stay under 4 KB of state
_MAX_EVENTS = 24_000  # Step Functions ends an execution at 25,000 events of history
_TURN_EVENTS, _CALL_EVENTS = 11, 9  # the tasks Think and a call are 5, a choice 2, the map 4 and 2 an item

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]


class Limits(Frozen):
    """What bounds a run. Each bound that is reached has its own stop reason."""

    max_turns: int = Field(30, ge=1, le=1000, description="Model calls that may ask for tools.")
    max_calls_per_turn: int = Field(10, ge=1, le=MAX_CALLS_PER_TURN, description="Calls run of one reply.")
    max_concurrency: int = Field(10, ge=1, le=40, description="Calls of one turn that run at the same time.")
    max_output_tokens: int | None = Field(None, ge=1, description="Tokens of one reply; None leaves it to the model.")

    @model_validator(mode="after")
    def _fits_an_execution(self) -> Self:
        if self.max_turns * (_TURN_EVENTS + _CALL_EVENTS * self.max_calls_per_turn) > _MAX_EVENTS:
            raise ValueError(f"max_turns with max_calls_per_turn would take more than {_MAX_EVENTS} events of history")
        return self


class ToolSpec(Frozen):
    """One tool as the model sees it and as the loop runs it.

    `target` names the function of this stack that runs it, without the stack's prefix; `parameters` is a JSON Schema
    of type object; `result_limit_bytes` bounds the text of a result that the model sees.
    """

    name: Name
    description: str
    kind: Literal["lambda", "interactive"]
    target: str = Field("", pattern=r"^[A-Za-z0-9_-]{0,64}$")
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    timeout_s: int = Field(30, ge=1, le=31_536_000)
    idempotent: bool = False
    returns_directly: bool = False
    result_limit_bytes: int = Field(16_384, ge=256, le=65_536)

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        if self.kind == "lambda" and not self.target:
            raise ValueError("a tool of kind lambda names its function as target")
        if self.parameters.get("type", "object") != "object":
            raise ValueError("parameters are a schema of type object")
        return self


class AgentSpec(Frozen):
    """One agent: a model, instructions, tools and limits. `model` names a row of `catalog/models.yaml`."""

    name: Name
    description: str = ""
    model: str = "default"
    instructions: str
    tools: tuple[Name, ...] = ()
    limits: Limits = Limits()
    temperature: float | None = Field(None, ge=0, le=2)
