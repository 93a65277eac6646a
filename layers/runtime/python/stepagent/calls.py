"""A call that a model asked for: ready to run, or born with the result that says why it is not. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from stepagent.agents import MAX_DEPTH
from stepagent.approvals import needs_approval
from stepagent.clock import now
from stepagent.errors import ToolError
from stepagent.llm.arguments import parse_arguments, replay_text
from stepagent.llm.names import resolve
from stepagent.llm.reply import RequestedCall
from stepagent.messages import CallId, ToolCall
from stepagent.runs import Call, CallKey, CallRef, CallResult, CallStatus, Run
from stepagent.tool_specs import ToolSpec

_NAME_CHARS = 200  # a made-up name is echoed, not stored without bound
_TOOL_GRACE_S = 5  # a function ends at its own limit, which is the tool's, and says so more precisely than the state
# The functions of kinds whose tools have none of their own.
GENERIC_FUNCTIONS = {"external_lambda": "tool_invoke_lambda", "http": "tool_http", "mcp": "tool_mcp"}
_COPIED = {"kind", "bound", "timeout_s", "idempotent", "returns_directly", "result_limit_bytes"}


class Terms(NamedTuple):
    """What decides whether a call of a reply may run: the tools on offer, how the reply ended, how many may follow."""

    tools: Sequence[ToolSpec]
    finish_reason: str
    calls_left: int


def make_call(run: Run, turn: int, index: int, wanted: RequestedCall, terms: Terms) -> Call:
    """The call, ready to run, or born with the result that says why it is not run."""
    call_id, name = CallKey(run.key.ordinal, turn, index).call_id, wanted.name.strip()[:_NAME_CHARS]
    try:
        tool = _runnable(run, index, name, terms)
        arguments = parse_arguments(tool, wanted.arguments)
    except ToolError as error:
        result = CallResult(text=error.message, is_error=True, finished_at=now())
        return Call(call_id=call_id, name=name, arguments={}, status=CallStatus.DONE, result=result)
    return Call(
        call_id=call_id,
        name=tool.name,
        arguments=arguments,
        caller=run.owner,
        needs_approval=needs_approval(tool, {**arguments, **tool.bound}),
        **tool.model_dump(include=_COPIED),
    )


def _runnable(run: Run, index: int, name: str, terms: Terms) -> ToolSpec:
    """The tool that may run.

    Raises:
        ToolError: it may not, and why.
    """
    limits = run.agent.limits
    if terms.finish_reason == "length":
        raise ToolError("Not run: your reply was cut off at its length limit, so this call may be incomplete.")
    if index >= limits.max_calls_per_turn:
        raise ToolError(f"Not run: one reply may make at most {limits.max_calls_per_turn} calls.")
    if index >= terms.calls_left:
        raise ToolError(f"Not run: one task may make at most {limits.max_calls} calls.")
    known = resolve(name, [tool.name for tool in terms.tools])
    tool = next(tool for tool in terms.tools if tool.name == known)
    if tool.kind == "agent" and run.depth >= MAX_DEPTH:
        raise ToolError(f"Not run: agents may call one another {MAX_DEPTH} levels deep. Do it yourself.")
    return tool


def to_tool_call(call: Call, wanted: RequestedCall) -> ToolCall:
    arguments = replay_text(wanted.arguments, call.arguments)
    extra = dict(wanted.extra)
    return ToolCall(
        call_id=call.call_id, name=call.name, arguments=arguments, provider_id=wanted.provider_id, extra=extra
    )


def reference(run: Run, call: Call) -> CallRef:
    tool = run.tool(call.name)
    assert tool is not None  # a call without a tool was born with a result and is not referred to
    if call.needs_approval:
        return CallRef(call_id=call.call_id, kind="ask", target="", timeout_s=tool.approval_timeout_s)
    return call_to_run(call.call_id, tool)


def call_to_run(call_id: CallId, tool: ToolSpec) -> CallRef:
    """What the state machine must know to run a call that nothing stands before."""
    match tool.kind:
        case "interactive":
            return CallRef(call_id=call_id, kind="ask", target="", timeout_s=tool.timeout_s)
        case "workflow" | "agent":
            return CallRef(call_id=call_id, kind="workflow", target="", timeout_s=tool.timeout_s)
        case "lambda" | "external_lambda" | "http" | "mcp":
            target = GENERIC_FUNCTIONS.get(tool.kind, tool.target)
            return CallRef(call_id=call_id, kind="tool", target=target, timeout_s=tool.timeout_s + _TOOL_GRACE_S)
