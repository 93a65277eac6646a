"""A reply that can be used: asked for again where it is empty, breaks the protocol or has another form than it must."""

from collections.abc import Callable
from typing import TypeVar

from stepagent.answer_form import AnswerForm
from stepagent.errors import ModelError, ModelFiltered, ModelReplyUnusable
from stepagent.llm.reply import ModelRequest, Reply
from stepagent.messages import AssistantMessage, UserMessage
from stepagent.usage import Usage

Ask = Callable[[ModelRequest], Reply]
Read = TypeVar("Read")

_MAX_CORRECTIONS = 2
_SHOWN_CHARS = 100_000  # of a reply to the model that gave it and shall correct it


def ask_until_usable(ask: Ask, request: ModelRequest) -> Reply:
    """A reply that says something and keeps to the protocol.

    Nothing at all is asked for once more, a broken protocol is corrected twice; all of it counts.

    Raises:
        ModelError: the model gave no usable reply; its usage is that of all that was asked.
    """
    spent, empty, corrections = Usage(), 0, 0
    while True:
        reply = _ask_counting(ask, request, spent)
        spent = reply.usage
        _check_filter(reply, spent)
        if reply.correction and not reply.calls:
            corrections += 1
            request = request._replace(correction=reply.correction)
        elif reply.is_empty:
            empty += 1
        else:
            return reply
        if corrections > _MAX_CORRECTIONS:
            raise ModelReplyUnusable("The model did not keep to the form of a tool call, three times.", usage=spent)
        if empty > 1:
            finish = reply.finish_reason or "none"
            raise ModelReplyUnusable(f"The model's reply was empty, twice (finish reason: {finish}).", usage=spent)


def in_form(request: ModelRequest, reply: Reply, ask: Ask) -> Reply:
    """The reply with an answer of the form that the request wants. One that has another is corrected once.

    A refusal stays as it is, and so does what was cut at the limit of a reply: its finish reason tells.

    Raises:
        ModelReplyUnusable: it has another form again.
    """
    form = request.form
    if form is None or reply.finish_reason == "length" or (reply.refusal and not reply.text.strip()):
        return reply
    corrected, text, why = read_reply(request, reply, ask, form.read, corrections=1)
    if text is None:
        raise ModelReplyUnusable(f"The answer has not the form that is wanted, twice: {why}.", usage=corrected.usage)
    return corrected._replace(text=text, calls=() if corrected is not reply else reply.calls)


def read_reply(
    request: ModelRequest, reply: Reply, ask: Ask, read: Callable[[str], Read], *, corrections: int
) -> tuple[Reply, Read | None, str]:
    """What can be read in a reply, or in one that is asked for in its place; no tool is offered for that.

    Args:
        request: what was asked, with the form that is wanted.
        reply: the answer to it.
        ask: the model.
        read: reads the text; its ValueError says what is wrong, for the model.
        corrections: how often the model is told that.

    Returns:
        The last reply with the usage of all, what was read, or None and why it could not be.
    """
    form = request.form or AnswerForm()
    while True:
        try:
            return reply, read(reply.text), ""
        except ValueError as error:
            why = str(error)
        if not corrections:
            return reply, None, why
        corrections -= 1
        reply = _corrected(request, reply, form.correction(why), ask)


def _corrected(request: ModelRequest, reply: Reply, correction: str, ask: Ask) -> Reply:
    asked = [UserMessage(text=request.closing)] if request.closing else []
    said = [AssistantMessage(text=reply.text[:_SHOWN_CHARS])] if reply.text.strip() else []
    messages = [*request.messages, *asked, *said, UserMessage(text=correction)]
    again = request._replace(messages=messages, tools=(), tool_choice="auto", closing="")
    try:
        corrected = ask_until_usable(ask, again)
    except ModelError as error:
        error.usage = reply.usage + error.usage
        raise
    return corrected._replace(usage=reply.usage + corrected.usage)


def _ask_counting(ask: Ask, request: ModelRequest, spent: Usage) -> Reply:
    """The next reply, with what was spent before it."""
    try:
        reply = ask(request)
    except ModelError as error:
        error.usage = spent + error.usage
        raise
    return reply._replace(usage=spent + reply.usage)


def _check_filter(reply: Reply, spent: Usage) -> None:
    if reply.finish_reason == "content_filter":
        raise ModelFiltered("The content filter of the model's provider stopped the reply.", usage=spent)
