"""Replies put together from chunks, in all the shapes that servers give them."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.errors import ModelReplyUnusable
from stepagent.llm.plain_reader import PlainReader
from stepagent.llm.providers import Witness
from stepagent.llm.reply import Listener, Reply, RequestedCall
from stepagent.llm.stream import Assembly
from tests.builders import Heard

Json = dict[str, Any]


def chunk(delta: Json | None = None, finish_reason: str | None = None, index: int = 0, **more: Any) -> Json:
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice], **more}


def piece(index: int = 0, id_: str | None = None, name: str | None = None, arguments: str | None = None) -> Json:
    return chunk({"tool_calls": [{"index": index, "id": id_, "function": {"name": name, "arguments": arguments}}]})


END = chunk(finish_reason="stop")


def read(*chunks: Json, listener: Listener | None = None) -> Reply:
    heard = listener or Heard()
    assembly = Assembly(PlainReader(heard), heard)
    for each in chunks:
        assembly.add(each)
    return assembly.reply()


def whole_calls_in(*chunks: Json) -> list[RequestedCall]:
    return list(read(*chunks, END).calls)


def calls_in(*chunks: Json) -> list[tuple[str, str, str]]:
    """The id, name and arguments of each call."""
    return [call[:3] for call in whole_calls_in(*chunks)]


def test_text_is_joined_when_it_comes_in_pieces() -> None:
    assert read(chunk({"content": "Hel"}), chunk({"content": "lo"}), END).text == "Hello"


def test_listener_hears_what_the_reply_holds_when_text_and_reasoning_come() -> None:
    heard = Heard()
    reply = read(
        chunk({"reasoning_content": "hm"}),
        chunk({"reasoning_content": ", yes"}),
        chunk({"content": "A"}),
        chunk({"content": "B"}),
        END,
        listener=heard,
    )
    assert (reply.text, "".join(heard.texts)) == ("AB", "AB")
    assert (reply.reasoning, "".join(heard.reasonings)) == ("hm, yes", "hm, yes")


def test_one_call_is_rebuilt_when_its_continuations_have_no_id_and_no_name() -> None:
    opening = piece(0, "c1", "search", "")
    assert calls_in(opening, piece(0, None, None, '{"q":'), piece(0, "", "", '"x"}')) == [("c1", "search", '{"q":"x"}')]


def test_calls_stay_apart_when_their_pieces_are_interleaved() -> None:
    assert calls_in(
        piece(0, "c1", "search", "{"), piece(1, "c2", "clock", "{"), piece(0, arguments="}"), piece(1, arguments=" }")
    ) == [("c1", "search", "{}"), ("c2", "clock", "{ }")]


def test_calls_are_two_when_they_share_an_index_and_have_ids_of_their_own() -> None:
    assert calls_in(
        piece(0, "c1", "search", '{"q":'),
        piece(0, None, None, '"a"}'),
        piece(0, "c2", "search", '{"q":'),
        piece(0, None, None, '"b"}'),
    ) == [("c1", "search", '{"q":"a"}'), ("c2", "search", '{"q":"b"}')]


def test_calls_are_two_when_they_have_ids_and_no_index() -> None:
    pieces = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    assert calls_in(*(chunk({"tool_calls": [each]}) for each in pieces)) == [("a", "a", "{}"), ("b", "b", "{}")]


def test_call_is_one_when_its_id_and_name_are_repeated_in_each_chunk() -> None:
    assert calls_in(
        piece(0, "c1", "search", "{"), piece(0, "c1", "search", '"q":1'), piece(0, "c1", "search", "}")
    ) == [("c1", "search", '{"q":1}')]


def test_name_is_joined_when_it_is_split_over_two_chunks() -> None:
    assert calls_in(piece(0, "c1", "sea"), piece(0, None, "rch"), piece(0, arguments="{}")) == [("c1", "search", "{}")]


def test_name_is_taken_once_when_it_is_split_and_then_repeated_with_the_arguments() -> None:
    assert calls_in(piece(0, "c1", "sea"), piece(0, None, "rch", "{"), piece(0, None, "search", "}")) == [
        ("c1", "search", "{}")
    ]


def test_pieces_in_one_chunk_are_one_call_when_they_share_an_index() -> None:
    pieces = [
        {"index": 0, "id": "c1", "function": {"name": "search", "arguments": '{"q":'}},
        {"index": 0, "function": {"arguments": '"x"}'}},
    ]
    assert calls_in(chunk({"tool_calls": pieces})) == [("c1", "search", '{"q":"x"}')]


def test_call_is_complete_when_name_and_arguments_are_null_at_first() -> None:
    assert calls_in(piece(0, "c1"), piece(0, None, "search"), piece(0, None, None, "{}")) == [("c1", "search", "{}")]


def test_call_without_an_id_is_kept_when_the_server_gives_none() -> None:
    assert calls_in(piece(0, None, "search", "{}")) == [("", "search", "{}")]


def test_calls_are_two_when_they_share_an_index_and_their_pieces_are_interleaved() -> None:
    pieces = [piece(0, id_, "search", part) for part in "{}" for id_ in ("c1", "c2")]
    assert calls_in(*pieces) == [("c1", "search", "{}"), ("c2", "search", "{}")]


def test_call_is_one_when_its_id_comes_after_its_name() -> None:
    assert calls_in(piece(0, None, "search", "{"), piece(0, "c1", None, "}")) == [("c1", "search", "{}")]


def test_piece_without_a_function_adds_nothing_when_it_comes() -> None:
    assert calls_in(piece(0, "c1", "search", "{}"), chunk({"tool_calls": [{"index": 0}]})) == [("c1", "search", "{}")]


def test_usage_is_read_when_it_comes_in_a_chunk_without_choices() -> None:
    counted = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    usage = read(chunk({"content": "x"}), END, {**chunk(usage=counted), "choices": []}).usage
    assert usage.model_dump(exclude={"cost_usd"}) == {
        "input_tokens": 7,
        "output_tokens": 3,
        "cached_tokens": 4,
        "reasoning_tokens": 2,
        "complete": True,
    }


def test_usage_is_known_to_be_unknown_when_the_server_counts_nothing() -> None:
    usage = read(chunk({"content": "x"}), END).usage
    assert (usage.complete, usage.input_tokens) == (False, 0)


@pytest.mark.parametrize("choices", [[], None])
def test_chunk_without_choices_is_passed_over_when_it_comes(choices: list[Json] | None) -> None:
    assert read({**chunk(), "choices": choices}, chunk({"content": "x"}), END).text == "x"


def test_chunk_without_a_delta_is_passed_over_when_it_comes() -> None:
    empty = {**chunk(), "choices": [{"index": 0, "delta": None, "finish_reason": None}]}
    assert read(empty, chunk({"content": "x"}), END).text == "x"


def test_only_choice_zero_is_read_when_two_are_interleaved() -> None:
    reply = read(
        chunk({"content": "A"}),
        chunk({"content": "B"}, index=1),
        chunk(finish_reason="length", index=1),
        chunk({"content": "a"}),
        END,
    )
    assert (reply.text, reply.finish_reason) == ("Aa", "stop")


def test_choice_zero_is_read_when_it_stands_behind_another_in_its_chunk() -> None:
    other = {"index": 1, "delta": {"content": "B"}, "finish_reason": None}
    both = chunk({"content": "A"})
    assert read({**both, "choices": [other, *both["choices"]]}, END).text == "A"


def test_choice_is_read_when_the_server_gives_it_no_index() -> None:
    unnumbered = [{"delta": {"content": "A"}, "finish_reason": None}, {"delta": {}, "finish_reason": "stop"}]
    assert read(*({**chunk(), "choices": [choice]} for choice in unnumbered)).text == "A"


def test_refusal_is_whole_and_apart_from_the_text_when_the_model_refuses() -> None:
    heard = Heard()
    reply = read(chunk({"content": "", "refusal": "I cannot "}), chunk({"refusal": "help."}), END, listener=heard)
    assert (reply.refusal, reply.text, heard.texts) == ("I cannot help.", "", [])


def test_refusal_can_be_stored_when_it_holds_half_a_character() -> None:
    assert read(chunk({"refusal": "a\ud83d"}), chunk({"refusal": "\ude00b\ud83d"}), END).refusal == "a\U0001f600b\ufffd"


@pytest.mark.parametrize(
    "delta",
    ["text", 5, {"content": 5}, {"content": ["a"]}, {"content": {"a": 1}}, {"tool_calls": [5]}, {"tool_calls": 5}],
)
def test_reply_is_unusable_when_a_field_has_a_type_that_no_reply_has(delta: Any) -> None:
    with pytest.raises(ModelReplyUnusable, match="form"):
        read({**chunk(), "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, END)


@pytest.mark.parametrize("choices", [5, "text", {"index": 0}, [5]])
def test_reply_is_unusable_when_its_choices_are_none(choices: Any) -> None:
    with pytest.raises(ModelReplyUnusable, match="form"):
        read({**chunk(), "choices": choices}, END)


@pytest.mark.parametrize("delta", [{"tool_calls": [{"index": 0, "function": 5}]}, {"function_call": 5}, {"refusal": 5}])
def test_field_counts_as_absent_when_nothing_that_is_said_can_be_in_it(delta: Json) -> None:
    assert read(chunk({"content": "x"}), chunk(delta), END).text == "x"


@pytest.mark.parametrize("parts", [["Hel", "lo"], ["", "Hello"], ["Hello"]])
def test_text_is_joined_when_it_comes_in_typed_parts(parts: list[str]) -> None:
    content = [{"type": "text", "text": part} for part in parts]
    assert read(chunk({"content": content}), END).text == "Hello"


def test_whole_message_is_read_when_the_server_does_not_stream() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "hm", "tool_calls": [call]}
    reply = read({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Hi", "hm", "stop")
    assert reply.calls == (("c1", "search", "{}", {}),)


def test_call_is_one_when_it_comes_in_the_old_and_the_new_form() -> None:
    old = {"function_call": {"name": "search", "arguments": "{}"}}
    assert calls_in(chunk(old), piece(0, "c1", "search", "{}")) == [("c1", "search", "{}")]


def test_call_of_the_old_form_is_joined_when_it_comes_in_pieces() -> None:
    pieces = [{"name": "search", "arguments": ""}, {"arguments": '{"q":'}, {"arguments": '"x"}'}]
    assert calls_in(*(chunk({"function_call": each}) for each in pieces)) == [("", "search", '{"q":"x"}')]


def test_arguments_are_text_when_the_server_sends_the_object_itself() -> None:
    function = {"name": "search", "arguments": {"q": "ä", "n": 12345678901234567890}}
    [call] = whole_calls_in(chunk({"tool_calls": [{"index": 0, "id": "c1", "function": function}]}))
    assert call.arguments == '{"q": "ä", "n": 12345678901234567890}'


def test_calls_are_two_when_they_have_neither_id_nor_index() -> None:
    pieces = [{"function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    assert calls_in(chunk({"tool_calls": pieces})) == [("", "a", "{}"), ("", "b", "{}")]


def test_unknown_fields_of_a_call_are_kept_when_the_provider_gives_some() -> None:
    signed = {"index": 0, "id": "c1", "function": {"name": "a", "arguments": "{}"}, "extra_content": {"g": {"s": "x"}}}
    assert whole_calls_in(chunk({"tool_calls": [signed]}))[0].extra == {"extra_content": {"g": {"s": "x"}}}


DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize("value", ["half \ud83d", DEEP])
def test_unknown_fields_of_a_call_are_dropped_when_no_record_could_hold_them(value: Any) -> None:
    odd = {"index": 0, "id": "c1", "function": {"name": "a", "arguments": "{}"}, "odd": value}
    assert whole_calls_in(chunk({"tool_calls": [odd]})) == [("c1", "a", "{}", {})]


@pytest.mark.parametrize("tokens", [float("inf"), float("nan"), -5, 10**30, "7", None, [7]])
def test_count_is_zero_when_it_is_none(tokens: Any) -> None:
    assert read(chunk({"content": "x"}, usage={"prompt_tokens": tokens}), END).usage.input_tokens == 0


def test_finish_reason_is_kept_when_later_chunks_have_none() -> None:
    assert read(chunk({"content": "x"}), chunk(finish_reason="length"), chunk()).finish_reason == "length"


def test_nothing_is_visible_when_only_reasoning_and_calls_came() -> None:
    witness = Witness(Heard())
    read(chunk({"reasoning_content": "hm"}), piece(0, "c1", "search", "{}"), END, listener=witness)
    assert not witness.seen


def test_reply_is_visible_when_the_first_word_of_its_text_came() -> None:
    witness = Witness(Heard())
    assembly = Assembly(PlainReader(witness), witness)
    assembly.add(chunk({"content": "Hel"}))
    assert witness.seen


@pytest.mark.parametrize("pieces", [["  ", "\n"], [" \n\t "], [""]])
def test_nothing_is_heard_when_the_text_is_blank(pieces: list[str]) -> None:
    heard = Heard()
    assert read(*(chunk({"content": each}) for each in pieces), END, listener=heard).text == ""
    assert heard.texts == []


def test_emoji_is_whole_when_its_halves_come_in_two_chunks() -> None:
    heard = Heard()
    reply = read(chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), END, listener=heard)
    assert reply.text == "a\U0001f600b"
    assert "".join(heard.texts) == reply.text


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_text_can_be_stored_when_half_a_character_never_gets_its_other_half(field: str) -> None:
    heard = Heard()
    reply = read(chunk({field: "a\ud83d"}), chunk({field: "b"}), chunk({field: "c\ud83d"}), END, listener=heard)
    assert reply.text + reply.reasoning == "a\ufffdbc\ufffd"
    assert "".join(heard.texts + heard.reasonings) == "a\ufffdbc\ufffd"


def test_call_can_be_stored_when_it_holds_half_a_character() -> None:
    assert calls_in(piece(0, "c\ud83d", "se\ud83d", "{\ud83d"), piece(0, None, None, "\ude00}")) == [
        ("c\ufffd", "se\ufffd", "{\U0001f600}")
    ]


@given(st.data(), st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_reply_is_the_same_wherever_the_stream_is_cut(
    data: st.DataObject, text: str, thought: str, written: str
) -> None:
    def cut(whole: str) -> Iterator[str]:
        places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
        for start, end in zip([0, *places], [*places, len(whole)], strict=True):
            yield whole[start:end]

    reply = read(
        *(chunk({"reasoning_content": part}) for part in cut(thought)),
        *(chunk({"content": part}) for part in cut(text)),
        piece(0, "c1", "search"),
        *(piece(0, None, None, part) for part in cut(written)),
        END,
    )
    assert (reply.reasoning, reply.text, reply.calls[0].arguments) == (thought, text if text.strip() else "", written)


@given(st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=12))
def test_no_piece_is_lost_however_calls_are_interleaved(order: list[str]) -> None:
    pieces = [piece(int(id_[1]), id_, "search", str(number)) for number, id_ in enumerate(order)]
    wanted = {id_: "".join(str(n) for n, each in enumerate(order) if each == id_) for id_ in order}
    assert {id_: arguments for id_, _, arguments in calls_in(*pieces)} == wanted
