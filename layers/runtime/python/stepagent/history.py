"""The conversation as a model may see it: every call followed by exactly one result, in call order."""

from collections.abc import Iterable

from stepagent.messages import AssistantMessage, CallId, Message, ToolMessage
from stepagent.runs import Call

NO_RESULT = "This call ended without a result. Its effects are unknown: check before you repeat it."


def to_messages(entries: Iterable[Message | Call]) -> list[Message]:
    """Turns the record into messages: after each reply the results of its calls, one for each, in order.

    A call that has no result gets one that says so; a result that belongs to no call is left out.
    """
    entries = list(entries)
    results = {entry.call_id: entry for entry in entries if isinstance(entry, Call)}
    messages: list[Message] = []
    for entry in entries:
        if isinstance(entry, Call | ToolMessage):
            continue
        messages.append(entry)
        if isinstance(entry, AssistantMessage):
            messages += [_result(results.get(call.call_id), call.call_id, call.name) for call in entry.calls]
    return messages


def _result(call: Call | None, call_id: CallId, name: str) -> ToolMessage:
    if call is None or call.result is None:
        return ToolMessage(call_id=call_id, name=name, text=NO_RESULT, is_error=True)
    return ToolMessage(call_id=call.call_id, name=name, text=call.result.text, is_error=call.result.is_error)
