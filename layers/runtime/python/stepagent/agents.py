"""Agents as data: a model, instructions, tools and limits, of which a run keeps a copy."""

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from stepagent.answer_form import AnswerForm
from stepagent.models import Frozen
from stepagent.planning.plan import MAX_STEPS
from stepagent.tool_specs import READ_RESULT, ToolName, ToolUse

MAX_CALLS_PER_TURN = 20  # twenty call references stay under 4 KB of state
MAX_TOOLS = 128  # of an agent, which is what providers take
MAX_DEPTH = 3  # agents that call agents: the bottom one is called through this many others at most
_MAX_EVENTS = 20_000  # Step Functions ends an execution at 25,000 events of history; retries take some
_TURN_EVENTS, _CALL_EVENTS = 11, 9  # the tasks Think and a call are 5, a choice 2, the map 4 and 2 an item

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]


class Limits(Frozen):
    """What bounds a run. Each bound that is reached has its own stop reason, and one closing call without tools."""

    max_turns: int = Field(30, ge=1, le=1000, description="Model calls that may ask for tools.")
    max_calls_per_turn: int = Field(10, ge=1, le=MAX_CALLS_PER_TURN, description="Calls run of one reply.")
    max_calls: int = Field(200, ge=1, description="Calls run in one run.")
    max_concurrency: int = Field(10, ge=1, le=40, description="Calls of one turn that run at the same time.")
    max_repeats: int = Field(5, ge=2, description="Turns in which one call, with one result, may be made.")
    max_output_tokens: int | None = Field(None, ge=1, description="Tokens of one reply; None leaves it to the model.")
    max_total_tokens: int | None = Field(None, ge=1, description="Tokens of a run, read and written together.")
    max_cost_usd: Decimal | None = Field(None, gt=0, description="US dollars that a run's models may cost.")
    max_wall_s: int | None = Field(None, ge=1, description="Seconds of a run, less those that it waited for people.")

    @model_validator(mode="after")
    def _fits_an_execution(self) -> Self:
        if self.max_turns * (_TURN_EVENTS + _CALL_EVENTS * self.max_calls_per_turn) > _MAX_EVENTS:
            raise ValueError(f"max_turns with max_calls_per_turn would take more than {_MAX_EVENTS} events of history")
        return self


Strategy = Literal["react", "plan", "auto"]


class PlanSpec(Frozen):
    """How an agent works by a plan. What bounds the whole run, such as money and time, stands in its limits."""

    max_steps: int = Field(12, ge=1, le=MAX_STEPS, description="Steps of a plan, those that came later among them.")
    max_revisions: int = Field(3, ge=0, le=10, description="How often its steps may change.")
    review: Literal["always", "on_failure"] = Field(
        "always", description="Looks at the plan again after each round of steps, or after a step that failed twice."
    )
    confirm: bool = Field(False, description="A person sees a plan before it is carried out, each revision too.")
    confirm_timeout_s: int = Field(
        86_400, ge=1, le=31_536_000, description="Seconds for which that person is waited for."
    )
    step_timeout_s: int = Field(
        86_400, ge=1, le=31_536_000, description="Seconds of one step, those that it waits for people among them."
    )


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
# Fields of an agent that its model is sent as they are.
MODEL_FIELDS = frozenset(
    {"temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop", "reasoning_effort"}
)


def _as_use(row: Any) -> Any:
    return {"tool": row} if isinstance(row, str) else row


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
    tools: Annotated[tuple[Annotated[ToolUse, BeforeValidator(_as_use)], ...], Field(max_length=MAX_TOOLS)] = ()
    tool_choice: ToolName = Field(
        "auto", description="What the first reply of a run must call: any tool (`required`), or the tool of this name."
    )
    limits: Limits = Limits()
    strategy: Strategy = Field(
        "react", description="Works step by step, or by a plan; `auto` has the model choose, once a run."
    )
    plan: PlanSpec = PlanSpec()
    reasoning: Literal["cot"] | None = Field(
        None, description="`cot`: told to think each reply through, step by step, before it gives it."
    )
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    seed: int | None = None
    stop: tuple[str, ...] = Field((), max_length=4, description="Texts before which a reply ends.")
    reasoning_effort: ReasoningEffort | None = None
    answer_form: AnswerForm | None = Field(None, description="The form in which answers are wanted; None for text.")

    @model_validator(mode="after")
    def _has_the_tool_that_it_must_call(self) -> Self:
        first = [use.shown_name for use in self.tools if use.tool != READ_RESULT]
        if self.tool_choice not in ("auto", *first) and not (self.tool_choice == "required" and first):
            raise ValueError(f"tool_choice is {self.tool_choice!r}, and the agent has no such tool to call first")
        return self

    @model_validator(mode="after")
    def _names_each_tool_once(self) -> Self:
        names = [use.shown_name for use in self.tools]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two tools have the name {', '.join(sorted(twice))}")
        return self
