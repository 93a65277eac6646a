"""What was said in a run, as its owner may see it: small enough for a page, whatever it holds."""

import json
from collections.abc import Sequence
from typing import Any

from stepagent.journal import shown
from stepagent.messages import AssistantMessage, Message, UserMessage
from stepagent.runs import Call, CallResult

_PAGE_BYTES = 2_000_000  # an answer of Lambda may have 6 MB
_MAX_ARGUMENTS_CHARS = 20_000


def shown_entries(entries: Sequence[Message | Call], after: int, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """The entries behind number `after`, at most `limit` or about 2 MB, and whether there are more.

    Each has its number `n`, from 1. What comes later is added at the end only, so a number keeps its entry.
    """
    page: list[dict[str, Any]] = []
    size = 0
    for n, entry in enumerate(entries[after:], after + 1):
        told = {"n": n, **_entry(entry)}
        size += len(json.dumps(told))
        if page and (len(page) == limit or size > _PAGE_BYTES):
            return page, True
        page.append(told)
    return page, False


def _entry(entry: Message | Call) -> dict[str, Any]:
    match entry:
        case Call():
            return _call(entry)
        case UserMessage():
            files = [file.name for file in entry.files]
            images = [_image(url) for url in entry.images]
            return {"type": "message", "role": entry.role, "text": entry.text, "files": files, "images": images}
        case AssistantMessage():
            calls = [call.call_id for call in entry.calls]
            said = {"text": entry.text, "reasoning": entry.reasoning, "calls": calls}
            return {"type": "message", "role": entry.role, **said}
        case _:
            return {"type": "message", "role": entry.role, "text": shown(entry.text), "call_id": entry.call_id}


def _call(call: Call) -> dict[str, Any]:
    """A call with its result. Arguments too long for a page are null; of a long result the beginning is shown."""
    arguments = call.arguments if len(json.dumps(call.arguments)) <= _MAX_ARGUMENTS_CHARS else None
    return {
        "type": "call",
        "id": call.call_id,
        "name": call.name,
        "arguments": arguments,
        "edited": call.edited,
        "status": call.status,
        "result": _result(call.result) if call.result else None,
    }


def _result(result: CallResult) -> dict[str, Any]:
    """`size_bytes` is that of the whole, `is_preview` whether less than that is shown."""
    text = shown(result.text)
    return {
        "text": text,
        "is_error": result.is_error,
        "is_preview": text != result.text or result.kept_bytes is not None,
        "size_bytes": len(result.text.encode()) if result.kept_bytes is None else result.kept_bytes,
        "images": [_image(url) for url in result.images],
        "finished_at": result.finished_at.isoformat(),
    }


def _image(url: str) -> str:
    """An address as it is; of an image that came as data what kind it is."""
    return f"{url.partition(',')[0]},…" if url.startswith("data:") else url
