"""Agents and tools as data: what the catalog holds and what a run keeps a copy of."""

import re
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stepagent.answer_form import AnswerForm
from stepagent.models import Frozen
from stepagent.questions import QuestionSpec
from stepagent.targets import HttpTarget, McpTarget

MAX_CALLS_PER_TURN = 20  # twenty call references stay under 4 KB of state
MAX_TOOLS = 128  # of an agent, which is what providers take
READ_RESULT = "read_result"  # the built-in tool that reads on in a result too long to show
MAX_DEPTH = 3  # agents that call agents: the bottom one is called through this many others at most
_MAX_EVENTS = 20_000  # Step Functions ends an execution at 25,000 events of history; retries take some
_TURN_EVENTS, _CALL_EVENTS = 11, 9  # the tasks Think and a call are 5, a choice 2, the map 4 and 2 an item

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]


def _printable(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise ValueError("a tool's name has printable characters only, and no blanks around it")
    return name


# Providers take fewer names than people give to their tools; what a provider is told is made from this one.
ToolName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]


_OPENING = frozenset(  # words by which a schema takes other members than its `properties`
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "dependentSchemas"}
    | {"allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef"}
)
_NO_PARAMETERS = {"type": "object", "properties": {}}


def _without_type_null(parameters: Any) -> Any:
    """Catalogs of others write a tool without parameters as null, or as a schema of type null."""
    empty = parameters is None or (isinstance(parameters, dict) and parameters.get("type", "object") is None)
    return dict(_NO_PARAMETERS) if empty else parameters


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


ToolKind = Literal["lambda", "external_lambda", "http", "mcp", "workflow", "agent", "interactive"]

_LAMBDA_ARN = r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9$_-]{1,128})?"
_MACHINE_ARN = r"arn:aws[a-z-]*:states:[a-z0-9-]+:\d{12}:stateMachine:[A-Za-z0-9_-]{1,80}"
_TARGETS = {  # what `target` names, by kind; no target for the others
    "lambda": ("its function, without the stack's prefix", r"[A-Za-z0-9_-]{1,64}"),
    "external_lambda": ("the ARN of a function", _LAMBDA_ARN),
    "workflow": ("the ARN of a state machine", _MACHINE_ARN),
    "agent": ("an agent of the catalog", r"[A-Za-z_][A-Za-z0-9_-]{0,63}"),
}


_LONGER_S = {"agent": 900, "workflow": 3_600, "interactive": 86_400}


class ApprovalWhen(Frozen):
    """A call must be approved when its arguments fit this JSON Schema."""

    when: dict[str, Any]

    @model_validator(mode="after")
    def _is_a_schema(self) -> Self:
        # Imported here because it takes longer than all of this module, and most functions meet no condition.
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415

        try:
            Draft202012Validator.check_schema(self.when)
        except SchemaError as error:
            raise ValueError(f"when is not a JSON Schema: {error.message}") from error
        return self


class ToolSpec(Frozen):
    """One tool as the model sees it and as the loop runs it.

    `target` says what runs it (see `_TARGETS`); `http` and `mcp` do for tools of their kind. `interaction` says how a
    tool of kind interactive asks; without it the model's argument `question` is asked, with `options` if it gives some.
    `parameters` is a JSON Schema of type object. `bound` are arguments that the author sets: the model neither sees nor
    changes them. `result_limit_bytes` bounds the text of a result that the model sees. `approval` says whether a person
    must approve a call before it runs, within `approval_timeout_s`. A person who is asked is reminded after each of
    `remind_after_s`, in seconds from when the question was asked.
    """

    name: ToolName
    description: str
    kind: ToolKind
    target: str = ""
    http: HttpTarget | None = None
    mcp: McpTarget | None = None
    interaction: QuestionSpec | None = None
    parameters: Annotated[dict[str, Any], BeforeValidator(_without_type_null)] = Field(
        default_factory=lambda: dict(_NO_PARAMETERS)
    )
    bound: dict[str, Any] = Field(default_factory=dict)
    timeout_s: int = Field(30, ge=1, le=31_536_000)
    idempotent: bool = False
    approval: Literal["never", "always"] | ApprovalWhen = "never"
    approval_timeout_s: int = Field(86_400, ge=1, le=31_536_000)
    remind_after_s: tuple[Annotated[int, Field(ge=1)], ...] = Field((), max_length=5)
    returns_directly: bool = False
    result_limit_bytes: int = Field(16_384, ge=256, le=65_536)

    @model_validator(mode="before")
    @classmethod
    def _waits_as_its_kind_does(cls, row: Any) -> Any:
        """Agents, workflows and people take longer than functions."""
        longer = isinstance(row, dict) and row.get("kind") in _LONGER_S and row.get("timeout_s") is None
        return {**row, "timeout_s": _LONGER_S[row["kind"]]} if longer else row

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        what, pattern = _TARGETS.get(self.kind, ("nothing", ""))
        if not re.fullmatch(pattern, self.target):
            raise ValueError(f"the target of a tool of kind {self.kind} names {what}")
        if (self.kind == "http") != (self.http is not None):
            raise ValueError("a tool of kind http, and no other, has the field http")
        if (self.kind == "mcp") != (self.mcp is not None):
            raise ValueError("a tool of kind mcp, and no other, has the field mcp")
        if self.parameters.get("type", "object") != "object":
            raise ValueError("parameters are a schema of type object")
        if self.http:
            declared = {*self.parameters.get("properties", ()), *self.bound}
            self.http.check_arguments(declared, {*self.parameters.get("required", ()), *self.bound})
        if self.approval != "never" and self.kind == "interactive":
            raise ValueError("a question to a person needs no approval")
        return self

    @model_validator(mode="after")
    def _reminds_while_it_asks(self) -> Self:
        asks = self.kind == "interactive"
        if self.remind_after_s and not asks and self.approval == "never":
            raise ValueError("remind_after_s: the tool asks nobody")
        if list(self.remind_after_s) != sorted(set(self.remind_after_s)):
            raise ValueError("remind_after_s: each comes later than the one before")
        limit_s = self.timeout_s if asks else self.approval_timeout_s
        if self.remind_after_s and self.remind_after_s[-1] >= limit_s:
            raise ValueError(f"remind_after_s: the question expires after {limit_s} s")
        return self

    @property
    def is_server(self) -> bool:
        """Whether it stands for all tools of an MCP server, which a run has in its place."""
        return self.mcp is not None and not self.mcp.tool

    @model_validator(mode="after")
    def _leaves_parameters_to_its_server(self) -> Self:
        if self.is_server and self.parameters.get("properties"):
            raise ValueError("the server tells its tools' parameters: leave them out, or name one tool in mcp.tool")
        return self

    @model_validator(mode="after")
    def _asks_of_what_it_is_given(self) -> Self:
        if self.interaction is None:
            return self
        if self.kind != "interactive":
            raise ValueError("only a tool of kind interactive has the field interaction")
        known = {*self.parameters.get("properties", {}), *self.bound}
        if unknown := sorted(self.interaction.arguments - known):
            raise ValueError(f"interaction: {unknown[0]!r} is no parameter of the tool")
        return self


class ToolUse(Frozen):
    """A tool as one agent has it: perhaps under another name, described otherwise, with some arguments bound.

    In a file, a name alone stands for the tool as it is.
    """

    tool: ToolName
    name: ToolName | None = None
    description: str | None = None
    bound: dict[str, Any] = Field(default_factory=dict)

    @property
    def shown_name(self) -> str:
        return self.name or self.tool

    def apply(self, tool: ToolSpec) -> ToolSpec:
        """The tool as this agent has it. Bound arguments leave its parameters, which take no others unless they say so.

        Else a model could set in another way what is bound, or what an author left out.
        """
        bound = {**tool.bound, **self.bound}
        parameters = dict(tool.parameters)
        parameters["properties"] = {
            name: schema for name, schema in parameters.get("properties", {}).items() if name not in bound
        }
        if required := [name for name in parameters.pop("required", ()) if name not in bound]:
            parameters["required"] = required
        if not _OPENING & set(parameters):
            parameters["additionalProperties"] = False
        changes = {
            "name": self.shown_name,
            "description": self.description or tool.description,
            "bound": bound,
            "parameters": parameters,
        }
        return tool.model_copy(update=changes)


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
