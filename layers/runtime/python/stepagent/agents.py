"""Agents and tools as data: what the catalog holds and what a run keeps a copy of."""

from typing import Annotated, Any, Literal

from pydantic import Field

from stepagent.models import Frozen

MAX_CALLS_PER_TURN = 20  # twenty call references stay under 4 KB of state

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]


class Limits(Frozen):
    """What bounds a run. Each bound that is reached has its own stop reason."""

    max_turns: int = Field(30, ge=1, le=1000, description="Model calls that may ask for tools.")
    max_calls_per_turn: int = Field(10, ge=1, le=MAX_CALLS_PER_TURN, description="Calls run of one reply.")
    max_concurrency: int = Field(10, ge=1, le=40, description="Calls of one turn that run at the same time.")
    max_output_tokens: int | None = Field(None, ge=1, description="Tokens of one reply; None leaves it to the model.")


class Interaction(Frozen):
    """How an interactive tool asks a person. `text` takes any answer."""

    type: Literal["text"] = "text"


class ToolSpec(Frozen):
    """One tool as the model sees it and as the loop runs it.

    `target` names the function of this stack that runs it, without the stack's prefix; `parameters` is a JSON Schema
    of type object; `result_limit_bytes` bounds the text of a result that the model sees.
    """

    name: Name
    description: str
    kind: Literal["lambda", "interactive"]
    target: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    timeout_s: int = Field(30, ge=1, le=31_536_000)
    idempotent: bool = False
    returns_directly: bool = False
    result_limit_bytes: int = Field(16_384, ge=256, le=65_536)
    interaction: Interaction | None = None


class AgentSpec(Frozen):
    """One agent: a model, instructions, tools and limits. `model` names a row of `catalog/models.yaml`."""

    name: Name
    description: str = ""
    model: str = "default"
    instructions: str
    tools: tuple[Name, ...] = ()
    limits: Limits = Limits()
    temperature: float | None = Field(None, ge=0, le=2)
