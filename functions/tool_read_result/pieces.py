"""Pieces of results that are kept outside the record."""

from typing import NamedTuple

from stepagent.errors import NotFound
from stepagent.runs import CallKey, RunKey, SessionKey
from stepagent.store.calls import load_call
from stepagent.store.results import read_kept_result
from stepagent.tools import ToolError
from stepagent.tools.rendering import whole_characters


class Piece(NamedTuple):
    """Text of a result; `next_offset` is where the following text begins, in bytes, or None at the end."""

    text: str
    next_offset: int | None
    total_bytes: int


def read_piece(session: SessionKey, call_id: str, offset: int, length: int) -> Piece:
    """The characters that stand whole between these bytes of a result in the session.

    Raises:
        ToolError: the session has no such call, or one whose result was shown whole.
    """
    try:
        call = CallKey.parse(call_id)
        result = load_call(RunKey(session, call.ordinal), call).call.result
    except (ValueError, NotFound) as error:
        raise ToolError(f"There is no call {call_id!r} in this conversation.") from error
    if result is None or result.kept_bytes is None:
        raise ToolError(f"The result of {call_id} was not too long: all of it was shown.")
    kept = read_kept_result(RunKey(session, call.ordinal), call, offset, length)
    text, end = whole_characters(kept.text_bytes)
    following = offset + end
    return Piece(text, following if kept.text_bytes and following < kept.total_bytes else None, kept.total_bytes)
