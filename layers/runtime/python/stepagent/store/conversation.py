"""The conversation of a session in the record: messages, and the calls that they asked for, each with its result."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from stepagent.messages import Message, message_adapter
from stepagent.runs import Call, RunKey, SessionKey
from stepagent.store.items import MESSAGES, message_key, pack, session_pk, unpack
from stepagent.store.table import Operation, put, query

_messages: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


class Part(NamedTuple):
    """What one item of a conversation holds: the messages of a request, a reply, or a call of that reply."""

    sort_key: str
    entries: Sequence[Message | Call]

    @property
    def call(self) -> Call | None:
        """The call, if it holds one."""
        return next((entry for entry in self.entries if isinstance(entry, Call)), None)


def load_history(session: SessionKey) -> list[Message | Call]:
    """The whole conversation of a session in order: messages, and after each reply the calls that it asked for."""
    return [entry for part in load_parts(session) for entry in part.entries]


def load_parts(session: SessionKey, after: str = "") -> list[Part]:
    """The same by items; with `after`, those behind that sort key."""
    return [Part(item["sk"], _entries(item)) for item in query(session_pk(session), MESSAGES, after)]


def load_conversation(run: RunKey) -> list[Message | Call]:
    """The part of a session's conversation that belongs to one run, in order. It grows at its end only."""
    prefix = f"{MESSAGES}{run.ordinal:06d}#"
    return [entry for item in query(session_pk(run.session), prefix) for entry in _entries(item)]


def put_messages(run: RunKey, messages: Sequence[Message]) -> Operation:
    """The messages that a run begins with, in one item: a long conversation has more than a transaction may have."""
    return put(message_key(run, 0), {"type": "messages", **pack("body", _messages.dump_json(list(messages)).decode())})


def put_message(run: RunKey, turn: int, message: Message) -> Operation:
    return put(message_key(run, turn), {"type": "message", **pack("body", message.model_dump_json())})


def put_call(session: SessionKey, call: Call) -> Operation:
    values: dict[str, Any] = {
        "type": "call",
        "status": call.status,
        **pack("body", call.model_dump_json(exclude={"status", "approved", "edited", "result"})),
    }
    if call.result:
        values |= pack("result", call.result.model_dump_json())
    return put(message_key(RunKey(session, call.key.ordinal), call.key.turn, call.key.position + 1), values)


def call_from_item(item: dict[str, Any]) -> Call:
    body: dict[str, Any] = json.loads(unpack(item, "body") or "{}")
    edited, result = unpack(item, "edited_arguments"), unpack(item, "result")
    changes: dict[str, Any] = {
        "status": item["status"],
        "approved": item.get("approved", ""),
        "result": json.loads(result) if result else None,
    }
    if result and changes["approved"]:  # it waited for that before it ran, which its function does not know
        changes["result"]["waited_s"] += int(item.get("waited_s", 0))
    return Call.model_validate(body | changes | ({"arguments": json.loads(edited), "edited": True} if edited else {}))


def _entries(item: dict[str, Any]) -> Sequence[Message | Call]:
    if item["type"] == "call":
        return [call_from_item(item)]
    body = unpack(item, "body") or ""
    return _messages.validate_json(body) if item["type"] == "messages" else [message_adapter.validate_json(body)]
