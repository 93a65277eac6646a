"""Tools as data: what the model is told of one, what runs it, on which terms, and how one agent has it."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stepagent.models import Frozen
from stepagent.parameters import NO_PARAMETERS, closed, without_arguments, without_type_null
from stepagent.questions import QuestionSpec
from stepagent.schemas import schema_flaw
from stepagent.targets import HttpTarget, McpTarget

READ_RESULT = "read_result"  # the built-in tool that reads on in a result too long to show


def _printable(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise ValueError("a tool's name has printable characters only, and no blanks around it")
    return name


# Providers take fewer names than people give to their tools; what a provider is told is made from this one.
ToolName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]

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
        if flaw := schema_flaw(self.when):
            raise ValueError(f"when is not a JSON Schema: {flaw.message}")
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
    parameters: Annotated[dict[str, Any], BeforeValidator(without_type_null)] = Field(
        default_factory=lambda: dict(NO_PARAMETERS)
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
        """The tool as this agent has it. What is bound leaves its parameters, which take no more unless they say so."""
        bound = {**tool.bound, **self.bound}
        changes = {
            "name": self.shown_name,
            "description": self.description or tool.description,
            "bound": bound,
            "parameters": closed(without_arguments(tool.parameters, bound)),
        }
        return tool.model_copy(update=changes)
