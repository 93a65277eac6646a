"""One turn of the loop: the model is asked once, and what follows is decided. Pure: the model is handed in."""

from collections.abc import Callable, Sequence

from stepagent.agents import AgentSpec, ToolSpec
from stepagent.clock import now
from stepagent.errors import ModelError, ModelFiltered, ModelReplyUnusable, ToolError
from stepagent.history import to_messages
from stepagent.llm.arguments import parse_arguments, replay_text
from stepagent.llm.content import with_quoted_files
from stepagent.llm.names import resolve
from stepagent.llm.reply import ModelRequest, Reply, RequestedCall
from stepagent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
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
)
from stepagent.usage import Usage

Ask = Callable[[ModelRequest], Reply]

MAX_RECORDED_CALLS = 50  # a reply with more is a runaway; its turn must still fit one transaction
_NAME_CHARS = 200  # a made-up name is echoed, not stored without bound
_TOOL_GRACE_S = 5  # a function ends at its own limit, which is the tool's, and says so more precisely than the state
_MAX_CORRECTIONS = 2
_MESSAGES_WITH_IMAGES = 2  # the question and the one before it
_CLOSING = "You have used all the steps that you may take. Answer now, from what you know; no more tools can be called."
_NO_CLOSING_ANSWER = "I stopped after {turns} steps, which is the limit, without reaching an answer."


def run_turn(run: Run, turn: int, entries: Sequence[Message | Call], ask: Ask) -> TurnRecord:
    """Asks the model about the conversation so far and decides how the run goes on.

    Args:
        run: the run as it stands.
        turn: counts from 1; above the agent's `max_turns` the closing call is made, which offers no tools.
        entries: the session's messages and calls in order.
        ask: the model.

    Raises:
        ModelError: the model gave no usable reply; its usage is that of all that was asked.
    """
    if stopped := _stop_tool_answer(run, turn, entries):
        return _done(run, turn, StopReason.STOP_TOOL, AssistantMessage(text=stopped), Usage(), unsaid=stopped)
    agent = run.agent
    messages = _shown(agent, to_messages(entries))
    request = ModelRequest(_system(run), messages, run.tools, vision=agent.vision, file_header=agent.reads_files)
    if turn > run.agent.limits.max_turns:
        return _close(run, turn, ask(request._replace(closing=_CLOSING, tools=())))
    reply = _ask_until_usable(ask, request)
    return _act(run, turn, reply) if reply.calls else _answer(run, turn, reply)


def _ask_until_usable(ask: Ask, request: ModelRequest) -> Reply:
    """A reply that says something and keeps to the protocol.

    Nothing at all is asked for once more, a broken protocol is corrected twice; all of it counts.
    """
    spent, empty, corrections = Usage(), 0, 0
    while True:
        try:
            reply = ask(request)
        except ModelError as error:
            error.usage = spent + error.usage
            raise
        spent += reply.usage
        _check_filter(reply, spent)
        if reply.correction and not reply.calls:
            corrections += 1
            request = request._replace(correction=reply.correction)
        elif reply.is_empty:
            empty += 1
        else:
            return reply._replace(usage=spent)
        if corrections > _MAX_CORRECTIONS:
            raise ModelReplyUnusable("The model did not keep to the form of a tool call, three times.", usage=spent)
        if empty > 1:
            finish = reply.finish_reason or "none"
            raise ModelReplyUnusable(f"The model's reply was empty, twice (finish reason: {finish}).", usage=spent)


def _check_filter(reply: Reply, spent: Usage) -> None:
    if reply.finish_reason == "content_filter":
        raise ModelFiltered("The content filter of the model's provider stopped the reply.", usage=spent)


def _system(run: Run) -> str:
    return "\n\n".join(part for part in (run.agent.instructions.strip(), run.system.strip()) if part)


def _shown(agent: AgentSpec, messages: Sequence[Message]) -> list[Message]:
    """The conversation with its documents as text, unless the agent reads files itself, and its recent images only.

    An image that a provider refuses, such as one that is gone, must not spoil a session for good.
    """
    said = [position for position, message in enumerate(messages) if isinstance(message, UserMessage)]
    recent = said[-_MESSAGES_WITH_IMAGES:][0] if said else 0
    shown: list[Message] = []
    for position, each in enumerate(messages):
        message = each
        if position < recent and isinstance(message, UserMessage | ToolMessage) and message.images:
            message = message.model_copy(update={"images": ()})
        if isinstance(message, UserMessage) and message.files and not agent.reads_files:
            message = with_quoted_files(message)
        shown.append(message)
    return shown


def _stop_tool_answer(run: Run, turn: int, entries: Sequence[Message | Call]) -> str:
    """The results of the stop tools of the turn before, in call order, or nothing."""
    last_turn = (run.key.ordinal, turn - 1)
    calls = [entry for entry in entries if isinstance(entry, Call) and entry.key[:2] == last_turn]
    results = [call.result for call in calls if call.returns_directly and call.result]
    return "\n\n".join(result.text for result in results if not result.is_error)


def _answer(run: Run, turn: int, reply: Reply) -> TurnRecord:
    """No calls: the text is the answer, or a refusal stands in its place."""
    if not reply.text.strip() and reply.refusal:
        message = AssistantMessage(text=reply.refusal, reasoning=reply.reasoning)
        return _done(run, turn, StopReason.REFUSED, message, reply.usage, unsaid=reply.refusal)
    reason = StopReason.OUTPUT_LIMIT if reply.finish_reason == "length" else StopReason.ANSWERED
    message = AssistantMessage(text=reply.text, reasoning=reply.reasoning, vendor=reply.vendor)
    return _done(run, turn, reason, message, reply.usage)


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
        vendor=reply.vendor,
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
    return Call(call_id=call_id, name=tool.name, arguments=arguments, **terms)


def _runnable(run: Run, index: int, finish_reason: str, name: str) -> ToolSpec:
    """The tool that may run.

    Raises:
        ToolError: it may not, and why.
    """
    if finish_reason == "length":
        raise ToolError("Not run: your reply was cut off at its length limit, so this call may be incomplete.")
    if index >= run.agent.limits.max_calls_per_turn:
        raise ToolError(f"Not run: one reply may make at most {run.agent.limits.max_calls_per_turn} calls.")
    known = resolve(name, [tool.name for tool in run.tools])
    return next(tool for tool in run.tools if tool.name == known)


def _tool_call(call: Call, wanted: RequestedCall) -> ToolCall:
    arguments = replay_text(wanted.arguments, call.arguments)
    extra = dict(wanted.extra)
    return ToolCall(
        call_id=call.call_id, name=call.name, arguments=arguments, provider_id=wanted.provider_id, extra=extra
    )


def _reference(run: Run, call: Call) -> CallRef:
    tool = run.tool(call.name)
    assert tool is not None  # a call without a tool was born with a result and is not referred to
    if tool.kind == "interactive":
        return CallRef(call_id=call.call_id, kind="ask", target="", timeout_s=tool.timeout_s)
    return CallRef(call_id=call.call_id, kind="tool", target=tool.target, timeout_s=tool.timeout_s + _TOOL_GRACE_S)
