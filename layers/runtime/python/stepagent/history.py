"""The conversation as a model may see it: paired, and cut by whole groups to what fits."""

import json
from collections.abc import Iterable, Sequence
from itertools import takewhile

from stepagent.messages import AssistantMessage, CallId, Message, ToolMessage, UserMessage
from stepagent.runs import Call

NO_RESULT = "This call ended without a result. Its effects are unknown: check before you repeat it."
_EDITED = "A person changed the arguments of this call before it ran. They were: "
_BYTES_PER_TOKEN = (
    3  # English has about four, other scripts and code fewer; too many tokens are refused, too few are not
)
_MESSAGE_TOKENS = 8  # what a provider adds around each
_IMAGE_TOKENS = 1_000  # by resolution, a few hundred to two thousand
_LEAST_RESULT_BYTES = 400
_CUT = "\n… (cut to fit: {kept} of {size} bytes)"

Group = tuple[Message, ...]


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


def fit(messages: Sequence[Message], budget_tokens: int) -> list[Message]:
    """The newest messages that fit, in whole groups: a reply and the results of its calls stay or go together.

    The last user message and what follows it always stay; where they alone are too long, their longest results are
    cut, with a note.
    """
    groups = in_groups(messages)
    last_user = max((n for n, group in enumerate(groups) if isinstance(group[0], UserMessage)), default=0)
    current = [message for group in groups[last_user:] for message in group]
    room = budget_tokens - sum(map(estimate_tokens, current))
    if room < 0:
        return _shorten(current, budget_tokens)
    earlier = groups[:last_user]
    sizes = [sum(map(estimate_tokens, group)) for group in earlier]
    kept = len(list(takewhile(lambda n: sum(sizes[len(sizes) - n - 1 :]) <= room, range(len(sizes)))))
    fitting = earlier[len(earlier) - kept :]
    # A conversation begins with a person: providers refuse one that begins with a reply.
    while fitting and not isinstance(fitting[0][0], UserMessage):
        fitting = fitting[1:]
    return [message for group in [*fitting, *groups[last_user:]] for message in group]


def estimate_tokens(message: Message) -> int:
    """Tokens of a message, rather too many than too few."""
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    texts = [message.text, *(call.name + call.arguments for call in calls)]
    images = 0 if isinstance(message, AssistantMessage) else len(message.images)
    return _MESSAGE_TOKENS + _IMAGE_TOKENS * images + estimate_text_tokens("".join(texts))


def estimate_text_tokens(text: str) -> int:
    """Tokens of a text, rather too many than too few."""
    return len(text.encode()) // _BYTES_PER_TOKEN


def in_groups(messages: Sequence[Message]) -> list[Group]:
    """What stays together: a reply and the results of its calls; every other message stands alone."""
    groups: list[Group] = []
    for message in messages:
        if isinstance(message, ToolMessage) and groups:
            groups[-1] = (*groups[-1], message)
        else:
            groups.append((message,))
    return groups


def _shorten(messages: Sequence[Message], budget_tokens: int) -> list[Message]:
    """Cuts results, the longest first and all to one size, until the whole fits or each is as short as it may be."""
    limit = max((len(m.text.encode()) for m in messages if isinstance(m, ToolMessage)), default=0)
    shortened = list(messages)
    while limit > _LEAST_RESULT_BYTES and sum(map(estimate_tokens, shortened)) > budget_tokens:
        limit = max(_LEAST_RESULT_BYTES, limit // 2)
        shortened = [_cut(message, limit) for message in messages]
    return shortened


def _cut(message: Message, limit_bytes: int) -> Message:
    content = message.text.encode()
    if not isinstance(message, ToolMessage) or len(content) <= limit_bytes:
        return message
    kept = content[:limit_bytes].decode("utf-8", "ignore")
    text = kept + _CUT.format(kept=len(kept.encode()), size=len(content))
    return message.model_copy(update={"text": text}) if len(text.encode()) < len(content) else message


def _result(call: Call | None, call_id: CallId, name: str) -> ToolMessage:
    if call is None or call.result is None:
        return ToolMessage(call_id=call_id, name=name, text=NO_RESULT, is_error=True)
    result = call.result
    text = f"{_edit_note(call)}{result.text}"
    return ToolMessage(call_id=call.call_id, name=name, text=text, is_error=result.is_error, images=result.images)


def _edit_note(call: Call) -> str:
    """What a model must know of a call that is not the one it made, or nothing."""
    return f"{_EDITED}{json.dumps(call.arguments, ensure_ascii=False)}\n\n" if call.edited else ""
