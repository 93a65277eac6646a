"""A conversation in which each reply makes one call, for modes that know no other."""

from collections.abc import Iterator, Mapping, Sequence

from stepagent.messages import AssistantMessage, CallId, Message, ToolMessage


def with_single_calls(messages: Sequence[Message]) -> Iterator[Message]:
    """The same conversation, replies with several calls told as one call after the other, each with its result."""
    results = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
    for message in messages:
        if isinstance(message, AssistantMessage) and message.calls:
            yield from _pairs(message, results)
        elif not isinstance(message, ToolMessage):
            yield message


def _pairs(message: AssistantMessage, results: Mapping[CallId, ToolMessage]) -> Iterator[Message]:
    text = message.text
    for call in message.calls:
        yield AssistantMessage(text=text, calls=(call,))
        text = ""  # what was said beside the calls was said once
        if call.call_id in results:
            yield results[call.call_id]
