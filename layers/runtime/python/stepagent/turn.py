"""One turn of the loop: the model is asked once, and what follows is decided. Pure: the model is handed in."""

from collections.abc import Callable, Sequence

from stepagent.agents import AgentSpec
from stepagent.answer_form import AnswerForm
from stepagent.budget import Reached, calls_of, reached, with_notices
from stepagent.calls import Terms, make_call, reference, to_tool_call
from stepagent.clock import now
from stepagent.errors import ModelError, ModelFiltered, ModelReplyUnusable
from stepagent.history import to_messages
from stepagent.llm.content import with_quoted_files
from stepagent.llm.reply import ModelRequest, Reply
from stepagent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from stepagent.runs import (
    Call,
    CallStatus,
    Decision,
    Outcome,
    Run,
    RunStatus,
    StopReason,
    TurnRecord,
)
from stepagent.tool_specs import READ_RESULT, ToolSpec
from stepagent.usage import Usage

Ask = Callable[[ModelRequest], Reply]

MAX_RECORDED_CALLS = 50  # a reply with more is a runaway; its turn must still fit one transaction
_MAX_CORRECTIONS = 2
_MESSAGES_WITH_IMAGES = 2  # the question and the one before it
_CLOSING = "{why} Answer now, from what you know; no more tools can be called."
_NO_CLOSING_ANSWER = "I stopped after {turns} steps without reaching an answer: {why}."


def run_turn(run: Run, turn: int, entries: Sequence[Message | Call], ask: Ask) -> TurnRecord:
    """Asks the model about the conversation so far and decides how the run goes on.

    Args:
        run: the run as it stands.
        turn: counts from 1; where a bound is reached the closing call is made, which offers no tools.
        entries: the session's messages and calls in order.
        ask: the model.

    Raises:
        ModelError: the model gave no usable reply; its usage is that of all that was asked.
    """
    if stopped := _stop_tool_answer(run, turn, entries):
        return _done(run, turn, StopReason.STOP_TOOL, AssistantMessage(text=stopped), Usage(), unsaid=stopped)
    agent, tools = run.agent, _offered(run, entries)
    messages = with_notices(run, _shown(agent, to_messages(entries)), entries)
    request = ModelRequest(_system(run), messages, tools, vision=agent.vision, file_header=agent.reads_files)
    request = request._replace(tool_choice=agent.tool_choice if turn == 1 else "auto")  # said of the next step alone
    if bound := reached(run, turn, entries, now()):
        closing = _CLOSING.format(why=bound.to_model)
        reply = ask(request._replace(closing=closing, tools=()))
        return _close(run, turn, bound, _in_form(agent.answer_form, request, reply, ask))
    reply = _ask_until_usable(ask, request)
    if not reply.calls:
        return _answer(run, turn, _in_form(agent.answer_form, request, reply, ask))
    made = len(calls_of(run, entries))
    return _act(run, turn, reply, tools, made)


def _offered(run: Run, entries: Sequence[Message | Call]) -> tuple[ToolSpec, ...]:
    """The run's tools; the one that reads on in a long result is there once there is one."""
    kept = any(isinstance(entry, Call) and entry.result and entry.result.kept_bytes for entry in entries)
    return tuple(tool for tool in run.tools if kept or tool.name != READ_RESULT)


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


def _in_form(form: AnswerForm | None, request: ModelRequest, reply: Reply, ask: Ask) -> Reply:
    """The reply with an answer of this form. One that has another is corrected once, and no tool is offered for that.

    A refusal stays as it is, and so does what was cut at the limit of a reply: its finish reason tells.
    """
    if form is None or reply.finish_reason == "length" or (reply.refusal and not reply.text.strip()):
        return reply
    try:
        return reply._replace(text=form.read(reply.text))
    except ValueError as why:
        told = UserMessage(text=form.correction(str(why)))
    said = [AssistantMessage(text=reply.text)] if reply.text.strip() else []
    again = request._replace(messages=[*request.messages, *said, told], tools=(), tool_choice="auto")
    try:
        corrected = _ask_until_usable(ask, again)
    except ModelError as error:
        error.usage = reply.usage + error.usage
        raise
    spent = reply.usage + corrected.usage
    try:
        return corrected._replace(text=form.read(corrected.text), calls=(), usage=spent)
    except ValueError as why:
        raise ModelReplyUnusable(f"The answer has not the form that is wanted, twice: {why}.", usage=spent) from why


def _check_filter(reply: Reply, spent: Usage) -> None:
    if reply.finish_reason == "content_filter":
        raise ModelFiltered("The content filter of the model's provider stopped the reply.", usage=spent)


def _system(run: Run) -> str:
    form = run.agent.answer_form.rule if run.agent.answer_form else ""
    return "\n\n".join(part for part in (run.agent.instructions.strip(), run.system.strip(), form) if part)


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
    unsaid = reply.text if run.agent.answer_form else ""  # no stream carried what was not yet checked
    return _done(run, turn, reason, message, reply.usage, unsaid=unsaid)


def _close(run: Run, turn: int, bound: Reached, reply: Reply) -> TurnRecord:
    """The soft landing: whatever the closing call said is the answer; calls that it made all the same are not run."""
    unsaid = "" if reply.text.strip() else _NO_CLOSING_ANSWER.format(turns=turn - 1, why=bound.to_person)
    message = AssistantMessage(text=unsaid or reply.text, reasoning=reply.reasoning)
    if run.agent.answer_form:
        unsaid = message.text
    return _done(run, turn, bound.reason, message, reply.usage, unsaid=unsaid)


def _done(
    run: Run, turn: int, reason: StopReason, message: AssistantMessage, usage: Usage, unsaid: str = ""
) -> TurnRecord:
    decision = Decision(run_id=run.run_id, turn=turn, next="done", reason=reason)
    outcome = Outcome(RunStatus.COMPLETED, reason, message.text)
    return TurnRecord(decision, message, (), usage, outcome, unsaid=unsaid)


def _act(run: Run, turn: int, reply: Reply, tools: Sequence[ToolSpec], made: int) -> TurnRecord:
    """The calls of a reply; `made` is how many the run has made before."""
    requested = reply.calls[:MAX_RECORDED_CALLS]
    left = run.agent.limits.max_calls - made
    calls = [
        make_call(run, turn, index, wanted, Terms(tools, reply.finish_reason, left))
        for index, wanted in enumerate(requested)
    ]
    message = AssistantMessage(
        text=reply.text,
        reasoning=reply.reasoning,
        vendor=reply.vendor,
        calls=tuple(to_tool_call(call, wanted) for call, wanted in zip(calls, requested, strict=True)),
    )
    decision = Decision(
        run_id=run.run_id,
        turn=turn,
        next="act",
        calls=tuple(reference(run, call) for call in calls if call.status is CallStatus.PENDING),
        max_concurrency=run.agent.limits.max_concurrency,
    )
    return TurnRecord(decision, message, calls, reply.usage)
