"""Events of a provider's stream, however its bytes are cut."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.errors import ModelBusy
from stepagent.llm import sse
from stepagent.llm.sse import Events

ONE = b'data: {"n": 1}\n\n'
TWO = b'data: {"n": 2}\n\n'


def read(*reads: bytes, idle_s: float = 60) -> list[dict[str, Any]]:
    return list(Events(reads, idle_s))


def numbers(*reads: bytes) -> list[Any]:
    return [event["n"] for event in read(*reads)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_read_when_lines_end_in_either_way(end: bytes) -> None:
    assert numbers((ONE + TWO).replace(b"\n", end)) == [1, 2]


def test_line_end_is_one_when_it_is_split_between_two_reads() -> None:
    assert read(b'data: {"n":\r', b"\ndata: 1}\r", b"\n\r", b"\n") == [{"n": 1}]


def test_event_is_given_at_once_when_its_blank_line_came() -> None:
    def reads() -> Iterator[bytes]:
        yield ONE
        raise AssertionError("the event had come")

    assert next(iter(Events(reads(), 60))) == {"n": 1}


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\x85"])
def test_line_goes_on_when_it_holds_what_others_take_for_a_line_end(char: str) -> None:
    assert read(f'data: {{"text": "a{char}b"}}\n\n'.encode()) == [{"text": f"a{char}b"}]


def test_character_is_whole_when_its_bytes_come_in_several_reads() -> None:
    content = 'data: {"text": "ä€😀"}\n\n'.encode()
    assert read(*(bytes([byte]) for byte in content)) == [{"text": "ä€😀"}]


def test_character_is_replaced_when_its_bytes_are_none() -> None:
    assert read(b'data: {"text": "a\xffb"}\n\n') == [{"text": "a\ufffdb"}]


@pytest.mark.parametrize(
    "other", [b": ping\n\n", b":\n", b"event: message\n", b"id: 7\nretry: 10\n", b"data:\n\n", b"\n\n"]
)
def test_line_is_passed_over_when_it_holds_no_data(other: bytes) -> None:
    assert numbers(other, ONE, other, TWO, other) == [1, 2]


def test_comment_is_passed_over_when_it_stands_inside_an_event() -> None:
    assert read(b'data: {"n":\n: ping\ndata: 1}\n\n') == [{"n": 1}]


def test_data_lines_are_one_text_when_an_event_has_several() -> None:
    assert read(b'data: {"a": 1,\ndata: "b":\ndata: 2}\n\n') == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("colon", [b"data:", b"data: ", b"data:  "])
def test_data_is_read_when_its_colon_has_any_space(colon: bytes) -> None:
    assert read(colon + b'{"n": 1}\n\n') == [{"n": 1}]


def test_event_is_read_when_a_byte_order_mark_stands_before_it() -> None:
    assert numbers(b"\xef\xbb", b"\xbf" + ONE) == [1]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_last_event_is_read_when_no_blank_line_follows_it(end: bytes) -> None:
    assert numbers(ONE, TWO.rstrip() + end) == [1, 2]


@pytest.mark.parametrize("mark", [b"data: [DONE]\n\n" + TWO, b"data:[DONE]\r\n\r\n" + TWO, b"data: [DONE]"])
def test_stream_is_over_when_the_provider_says_so(mark: bytes) -> None:
    events = Events([ONE, mark], 60)
    assert (len(list(events)), events.done) == (1, True)


def test_stream_is_not_known_to_be_over_when_it_only_ends() -> None:
    events = Events([ONE], 60)
    assert (len(list(events)), events.done) == (1, False)


@pytest.mark.parametrize("data", [b"{", b"nonsense", b"[1]", b"5", b"null", b'"text"', b"[" * 100_000, b"9" * 5_000])
def test_model_is_busy_when_data_is_no_object(data: bytes) -> None:
    with pytest.raises(ModelBusy, match="data that is not"):
        read(b"data: " + data + b"\n\n")


class Clock:
    """Goes on by a second a look. Stands for the module `time`."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1
        return self._now


@pytest.mark.parametrize("heartbeat", [b": ping\n\n", b"event: ping\n\n", b"data:\n\n", b"data: \n"])
def test_model_is_busy_when_nothing_but_heartbeats_comes(monkeypatch: pytest.MonkeyPatch, heartbeat: bytes) -> None:
    monkeypatch.setattr(sse, "time", Clock())
    with pytest.raises(ModelBusy, match="no data for 5 s"):
        read(ONE, *[heartbeat] * 10, idle_s=5)


def test_stream_goes_on_when_data_comes_between_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "time", Clock())
    assert len(read(*[ONE, *[b": ping\n"] * 3] * 10, idle_s=5)) == 10


def test_long_line_is_read_when_it_is_below_the_limit() -> None:
    content = b'data: {"text": "' + b"x" * 1_000_000 + b'"}\n\n'
    reads = [content[start:end] for start, end in pairwise([*range(0, len(content), 16_384), len(content)])]
    [event] = read(*reads)
    assert len(event["text"]) == 1_000_000


def test_model_is_busy_when_a_line_never_ends() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 1_000_000

    with pytest.raises(ModelBusy, match="a line of more than"):
        list(Events(endless(), 60))


TEXTS = st.lists(st.text(max_size=8), max_size=5)
FILLERS = st.sampled_from(["", ": ping\n\n", "event: x\n", "id: 1\n", "\n"])


@given(TEXTS, st.sampled_from(["\n", "\r\n", "\r"]), FILLERS, st.data())
def test_events_are_the_same_wherever_the_bytes_are_cut(
    texts: list[str], end: str, filler: str, data: st.DataObject
) -> None:
    written = "".join(f"{filler}data: {json.dumps({'t': text}, ensure_ascii=False)}\n\n" for text in texts)
    content = written.replace("\n", end).encode()
    places = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    reads = [content[start:stop] for start, stop in pairwise([0, *places, len(content)])]
    assert [event["t"] for event in read(*reads)] == texts
