"""Agents and tools as data: what the catalog holds and what a run keeps a copy of."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stepagent.models import Frozen

MAX_CALLS_PER_TURN = 20  # twenty call references stay under 4 KB of state
_MAX_EVENTS = 20_000  # Step Functions ends an execution at 25,000 events of history; retries take some
_TURN_EVENTS, _CALL_EVENTS = 11, 9  # the tasks Think and a call are 5, a choice 2, the map 4 and 2 an item

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]


def _printable(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise ValueError("a tool's name has printable characters only, and no blanks around it")
    return name


# Providers take fewer names than people give to their tools; what a provider is told is made from this one.
ToolName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]


_NO_PARAMETERS = {"type": "object", "properties": {}}


def _without_type_null(parameters: Any) -> Any:
    """Catalogs of others write a tool without parameters as null, or as a schema of type null."""
    empty = parameters is None or (isinstance(parameters, dict) and parameters.get("type", "object") is None)
    return dict(_NO_PARAMETERS) if empty else parameters


class Limits(Frozen):
    """What bounds a run. Each bound that is reached has its own stop reason."""

    max_turns: int = Field(30, ge=1, le=1000, description="Model calls that may ask for tools.")
    max_calls_per_turn: int = Field(10, ge=1, le=MAX_CALLS_PER_TURN, description="Calls run of one reply.")
    max_concurrency: int = Field(10, ge=1, le=40, description="Calls of one turn that run at the same time.")
    max_output_tokens: int | None = Field(None, ge=1, description="Tokens of one reply; None leaves it to the model.")
    max_wall_s: int | None = Field(
        None, ge=1, description="Seconds from a run's start for which it waits for a provider."
    )

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

    name: ToolName
    description: str
    kind: Literal["lambda", "interactive"]
    target: str = Field("", pattern=r"^[A-Za-z0-9_-]{0,64}$")
    parameters: Annotated[dict[str, Any], BeforeValidator(_without_type_null)] = Field(
        default_factory=lambda: dict(_NO_PARAMETERS)
    )
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
    mode: Literal["tool_choice", "function_call", "prompt_call"] | None = Field(
        None, description="How its model is called; None leaves it to what the model can."
    )
    protocol: str = Field("", description="Words of the text protocol, such as in another language; empty for ours.")
    vision: bool = Field(True, description="Shows its model images, where the model takes them.")
    reads_files: bool = Field(False, description="Has a tool for attached files: told how many, not given their text.")
    tools: tuple[ToolName, ...] = ()
    limits: Limits = Limits()
    temperature: float | None = Field(None, ge=0, le=2)
