"""One turn of the loop: the model is asked once, and what follows is decided. Pure: the model is handed in."""

from collections.abc import Sequence

from stepagent.agents import AgentSpec
from stepagent.answer_form import AnswerForm
from stepagent.budget import Reached, calls_of, reached, with_notices
from stepagent.calls import Terms, make_call, reference, to_tool_call
from stepagent.clock import now
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
from stepagent.usable import Ask, ask_until_usable, in_form
from stepagent.usage import Usage

MAX_RECORDED_CALLS = 50  # a reply with more is a runaway; its turn must still fit one transaction
THINK_FIRST = (
    "Think before each reply, between <think> and </think>: which steps does the task take, which of them are done, "
    "what has to come next, and does a result change that? Nobody else reads this. Your reply stands behind it."
)
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
    request = request_of(run, entries, agent_words(run), run.agent.answer_form)
    tools = _offered(run, entries)
    if bound := reached(run, turn, entries, now()):
        reply = ask(request._replace(closing=_CLOSING.format(why=bound.to_model)))
        return close(run, turn, bound, in_form(request, reply, ask))
    # A choice is said of the first step alone.
    request = request._replace(tools=tools, tool_choice=run.agent.tool_choice if turn == 1 else "auto")
    reply = ask_until_usable(ask, request)
    if not reply.calls:
        return answer(run, turn, in_form(request, reply, ask))
    made = len(calls_of(run, entries))
    return _act(run, turn, reply, tools, made)


def _offered(run: Run, entries: Sequence[Message | Call]) -> tuple[ToolSpec, ...]:
    """The run's tools; the one that reads on in a long result is there once there is one."""
    kept = any(isinstance(entry, Call) and entry.result and entry.result.kept_bytes for entry in entries)
    return tuple(tool for tool in run.tools if kept or tool.name != READ_RESULT)


def request_of(
    run: Run, entries: Sequence[Message | Call], words: Sequence[str], form: AnswerForm | None
) -> ModelRequest:
    """What a model is asked in this run: the conversation so far, these words and the form before it, no tools yet."""
    agent = run.agent
    system = "\n\n".join(filter(None, (*map(str.strip, words), form.rule if form else "")))
    messages = with_notices(run, _shown(agent, to_messages(entries)), entries)
    return ModelRequest(system, messages, (), vision=agent.vision, file_header=agent.reads_files, form=form)


def agent_words(run: Run) -> tuple[str, ...]:
    """What the model is told about itself, by the agent's author and by the caller."""
    thinking = THINK_FIRST if run.agent.reasoning == "cot" else ""
    return (run.agent.instructions, run.system, thinking)


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


def answer(run: Run, turn: int, reply: Reply) -> TurnRecord:
    """No calls: the text is the answer, or a refusal stands in its place."""
    if not reply.text.strip() and reply.refusal:
        message = AssistantMessage(text=reply.refusal, reasoning=reply.reasoning)
        return _done(run, turn, StopReason.REFUSED, message, reply.usage, unsaid=reply.refusal)
    reason = StopReason.OUTPUT_LIMIT if reply.finish_reason == "length" else StopReason.ANSWERED
    message = AssistantMessage(text=reply.text, reasoning=reply.reasoning, vendor=reply.vendor)
    unsaid = reply.text if run.agent.answer_form else ""  # no stream carried what was not yet checked
    return _done(run, turn, reason, message, reply.usage, unsaid=unsaid)


def close(run: Run, turn: int, bound: Reached, reply: Reply) -> TurnRecord:
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
