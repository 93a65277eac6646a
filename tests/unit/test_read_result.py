"""The tool `read_result`: long results in pieces, over a record in memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.errors import NotFound
from stepagent.runs import Call, CallKey, CallResult, RunKey, SessionKey
from stepagent.store.calls import ClaimedCall
from stepagent.store.results import KeptPiece
from stepagent.tools import ToolContext, ToolError
from stepagent.tools.rendering import to_text
from tests.builders import NOON, OWNER, RUN_ID, a_call, a_done_call
from tests.functions import catalog_entry, load

pieces = load("tool_read_result", "pieces")
handler = load("tool_read_result", "app").handler
SESSION = SessionKey("abc")
CALL_ID = "call_1_1_0"


class Kept:
    """One call and the whole text of its result. Stands for `load_call` and `read_kept_result`."""

    def __init__(self, text: str, call: Call | None = None) -> None:
        self.content = text.encode()
        result = CallResult(text="preview", finished_at=NOON, kept_bytes=len(self.content))
        self.call = call or a_call(result=result)

    def load_call(self, run: RunKey, key: CallKey) -> ClaimedCall:
        if (run.session, key) != (SESSION, self.call.key):
            raise NotFound("no such call")
        return ClaimedCall(self.call, ours=False)

    def read_kept_result(self, run: RunKey, call: CallKey, offset: int, length: int) -> KeptPiece:
        return KeptPiece(self.content[offset : offset + length], len(self.content))

    def placed(self, monkeypatch: pytest.MonkeyPatch) -> "Kept":
        for name in ("load_call", "read_kept_result"):
            monkeypatch.setattr(pieces, name, getattr(self, name))
        return self


def read(session: str = SESSION, **arguments: Any) -> Any:
    context = ToolContext(RUN_ID, SessionKey(session), a_call().call_id, OWNER, NOON)
    return handler.run({"call_id": CALL_ID, **arguments}, context)


def test_piece_says_where_the_next_one_begins_when_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    Kept("x" * 100).placed(monkeypatch)
    assert read(offset_bytes=10, length_bytes=20) == ("x" * 20, 30, 100)


@pytest.mark.parametrize(("offset", "text"), [(80, "x" * 20), (100, ""), (1_000, "")])
def test_piece_says_so_when_nothing_follows(monkeypatch: pytest.MonkeyPatch, offset: int, text: str) -> None:
    Kept("x" * 100).placed(monkeypatch)
    assert read(offset_bytes=offset) == (text, None, 100)


def test_piece_holds_whole_characters_when_its_bytes_begin_and_end_within_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Kept("中" * 100).placed(monkeypatch)
    assert read(offset_bytes=1, length_bytes=16) == ("中" * 4, 15, 300)


@given(st.text(max_size=300), st.integers(16, 100))
def test_pieces_are_the_whole_text_when_they_are_read_in_turn(text: str, length: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        Kept(text).placed(monkeypatch)
        gathered, offset, reads = "", 0, 0
        while offset is not None:
            piece, offset, _ = read(offset_bytes=offset, length_bytes=length)
            gathered, reads = gathered + piece, reads + 1
            assert reads <= len(text.encode()) // 12 + 2
        assert gathered == text


def test_largest_piece_is_no_long_result_itself_when_every_character_is_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Kept("\0" * 20_000).placed(monkeypatch)
    assert len(to_text(read(length_bytes=10_000)).encode()) <= catalog_entry("read_result")["result_limit_bytes"]


@pytest.mark.parametrize("call_id", ["call_1_1_5", "call_9_1_0", "toolu_abc", "", "call_1_1_0\n"])
def test_model_reads_that_there_is_no_such_call_when_it_makes_one_up(
    monkeypatch: pytest.MonkeyPatch, call_id: str
) -> None:
    Kept("x").placed(monkeypatch)
    with pytest.raises(ToolError, match=r"There is no call .* in this conversation"):
        read(call_id=call_id)


def test_call_of_another_session_is_none_when_its_id_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    Kept("x").placed(monkeypatch)
    with pytest.raises(ToolError, match="There is no call"):
        read(session="other")


@pytest.mark.parametrize("call", [a_done_call("short"), a_call()])
def test_model_reads_that_it_saw_all_when_a_result_was_short(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    Kept("", call).placed(monkeypatch)
    with pytest.raises(ToolError, match="all of it was shown"):
        read()
