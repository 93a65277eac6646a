"""One turn of the loop: the model is asked once, and what follows is decided. Pure: the model is handed in."""

from collections.abc import Callable, Sequence

from stepagent.agents import ToolSpec
from stepagent.clock import now
from stepagent.errors import ModelReplyUnusable, ToolError
from stepagent.history import to_messages
from stepagent.llm.arguments import parse_arguments
from stepagent.llm.reply import Reply, RequestedCall
from stepagent.messages import AssistantMessage, Message, ToolCall, UserMessage
from stepagent.runs import (
    Call,
    CallKey,
    CallRef,
    CallResult,
    CallStatus,
    Decision,
    Outcome,
    Run,
    RunStatus,
    StopReason,
    TurnRecord,
    Usage,
)

Ask = Callable[[str, Sequence[Message], Sequence[ToolSpec]], Reply]

MAX_RECORDED_CALLS = 50  # a reply with more is a runaway; its turn must still fit one transaction
_NAME_CHARS = 200  # a made-up name is echoed, not stored without bound
_TOOL_GRACE_S = 5  # a function ends at its own limit, which is the tool's, and says so more precisely than the state
_CUT = frozenset({"length", "content_filter"})
_CLOSING = "You have used all the steps that you may take. Answer now, from what you know; no more tools can be called."
_NO_CLOSING_ANSWER = "I stopped after {turns} steps, which is the limit, without reaching an answer."


def run_turn(run: Run, turn: int, entries: Sequence[Message | Call], ask: Ask) -> TurnRecord:
    """Asks the model about the conversation so far and decides how the run goes on.

    Args:
        run: the run as it stands.
        turn: counts from 1; above the agent's `max_turns` the closing call is made, which offers no tools.
        entries: the session's messages and calls in order.
        ask: system text, messages and tools to a reply.

    Raises:
        ModelError: the model gave no usable reply.
    """
    if stopped := _stop_tool_answer(run, turn, entries):
        return _done(run, turn, StopReason.STOP_TOOL, AssistantMessage(text=stopped), Usage(), unsaid=stopped)
    messages, system = to_messages(entries), _system(run)
    if turn > run.agent.limits.max_turns:
        reply = ask(system, [*messages, UserMessage(text=_CLOSING)], ())
        return _close(run, turn, reply)
    reply = _ask_until_said(ask, system, messages, run.tools)
    if not reply.calls:
        message = AssistantMessage(text=reply.text, reasoning=reply.reasoning)
        return _done(run, turn, StopReason.ANSWERED, message, reply.usage)
    return _act(run, turn, reply)


def _ask_until_said(ask: Ask, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
    """A reply that says something. Nothing at all is asked for once more; both count."""
    reply = ask(system, messages, tools)
    if not reply.is_empty:
        return reply
    again = ask(system, messages, tools)
    if again.is_empty:
        finish = again.finish_reason or "none"
        raise ModelReplyUnusable(f"The model's reply was empty, twice (finish reason: {finish}).")
    return again._replace(usage=reply.usage + again.usage)


def _system(run: Run) -> str:
    return "\n\n".join(part for part in (run.agent.instructions.strip(), run.system.strip()) if part)


def _stop_tool_answer(run: Run, turn: int, entries: Sequence[Message | Call]) -> str:
    """The result of the first stop tool of the turn before, or nothing."""
    last_turn = [
        entry
        for entry in entries
        if isinstance(entry, Call) and (entry.key.ordinal, entry.key.turn) == (run.key.ordinal, turn - 1)
    ]
    results = [call.result for call in last_turn if call.returns_directly and call.result]
    return next((result.text for result in results if not result.is_error), "")


def _close(run: Run, turn: int, reply: Reply) -> TurnRecord:
    """The soft landing: whatever the closing call said is the answer; calls that it made all the same are not run."""
    unsaid = "" if reply.text.strip() else _NO_CLOSING_ANSWER.format(turns=turn - 1)
    message = AssistantMessage(text=unsaid or reply.text, reasoning=reply.reasoning)
    return _done(run, turn, StopReason.MAX_TURNS, message, reply.usage, unsaid=unsaid)


def _done(
    run: Run, turn: int, reason: StopReason, message: AssistantMessage, usage: Usage, unsaid: str = ""
) -> TurnRecord:
    decision = Decision(run_id=run.run_id, turn=turn, next="done", reason=reason)
    outcome = Outcome(RunStatus.COMPLETED, reason, message.text)
    return TurnRecord(decision, message, (), usage, outcome, unsaid=unsaid)


def _act(run: Run, turn: int, reply: Reply) -> TurnRecord:
    requested = reply.calls[:MAX_RECORDED_CALLS]
    calls = [_call(run, turn, index, reply.finish_reason, wanted) for index, wanted in enumerate(requested)]
    message = AssistantMessage(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=tuple(_tool_call(call, wanted) for call, wanted in zip(calls, requested, strict=True)),
    )
    decision = Decision(
        run_id=run.run_id,
        turn=turn,
        next="act",
        calls=tuple(_reference(run, call) for call in calls if call.status is CallStatus.PENDING),
        max_concurrency=run.agent.limits.max_concurrency,
    )
    return TurnRecord(decision, message, calls, reply.usage)


def _call(run: Run, turn: int, index: int, finish_reason: str, wanted: RequestedCall) -> Call:
    """The call, ready to run, or born with the result that says why it is not run."""
    call_id, name = CallKey(run.key.ordinal, turn, index).call_id, wanted.name.strip()[:_NAME_CHARS]
    try:
        tool = _runnable(run, index, finish_reason, name)
        arguments = parse_arguments(tool, wanted.arguments)
    except ToolError as error:
        result = CallResult(text=error.message, is_error=True, finished_at=now())
        return Call(call_id=call_id, name=name, arguments={}, status=CallStatus.DONE, result=result)
    terms = tool.model_dump(include={"timeout_s", "idempotent", "returns_directly", "result_limit_bytes"})
    return Call(call_id=call_id, name=name, arguments=arguments, **terms)


def _runnable(run: Run, index: int, finish_reason: str, name: str) -> ToolSpec:
    """The tool that may run.

    Raises:
        ToolError: it may not, and why.
    """
    if finish_reason in _CUT:
        raise ToolError(f"Not run: your reply was cut off ({finish_reason}), so this call may be incomplete.")
    if index >= run.agent.limits.max_calls_per_turn:
        raise ToolError(f"Not run: one reply may make at most {run.agent.limits.max_calls_per_turn} calls.")
    tool = run.tool(name)
    if tool is None:
        names = ", ".join(tool.name for tool in run.tools) or "none"
        raise ToolError(f"There is no tool {name!r}. The tools are: {names}.")
    return tool


def _tool_call(call: Call, wanted: RequestedCall) -> ToolCall:
    usable = call.status is CallStatus.PENDING and wanted.arguments.strip()
    arguments = wanted.arguments if usable else "{}"
    return ToolCall(call_id=call.call_id, name=call.name, arguments=arguments, provider_id=wanted.provider_id)


def _reference(run: Run, call: Call) -> CallRef:
    tool = run.tool(call.name)
    assert tool is not None  # a call without a tool was born with a result and is not referred to
    if tool.kind == "interactive":
        return CallRef(call_id=call.call_id, kind="ask", target="", timeout_s=tool.timeout_s)
    return CallRef(call_id=call.call_id, kind="tool", target=tool.target, timeout_s=tool.timeout_s + _TOOL_GRACE_S)
