"""The tool `read_result`."""

from typing import Annotated

from pieces import Piece, read_piece
from pydantic import Field

from stepagent.tools import ToolContext, tool

MAX_BYTES = 10_000  # each byte may take six characters of JSON, and all of them must fit into a result


@tool
def handler(
    call_id: Annotated[str, Field(max_length=60, description="The call whose result it is, as its preview names it.")],
    context: ToolContext,
    offset_bytes: Annotated[int, Field(ge=0, description="Where to begin: next_offset of the piece before.")] = 0,
    length_bytes: Annotated[int, Field(ge=16, le=MAX_BYTES, description="How much to read at most.")] = 8_000,
) -> Piece:
    """Read on in a result that was too long to be shown whole.

    Gives a piece of its text, the offset of the next one (null at the end) and the size of the whole.
    """
    return read_piece(context.session, call_id, offset_bytes, length_bytes)
