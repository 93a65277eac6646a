"""The conversation as a model sees it: calls and results are never apart."""

from hypothesis import given
from hypothesis import strategies as st

from stepagent.history import NO_RESULT, to_messages
from stepagent.messages import AssistantMessage, CallId, Message, ToolCall, ToolMessage, UserMessage
from stepagent.runs import Call
from tests.builders import a_call, a_done_call, call_id


def reply(*positions: int, turn: int = 1) -> AssistantMessage:
    return AssistantMessage(calls=tuple(ToolCall(call_id=call_id(place, turn), name="search") for place in positions))


def stray(position: int) -> ToolMessage:
    return ToolMessage(call_id=call_id(position), name="search", text="stray")


POSITIONS = st.integers(0, 3)
REPLIES = st.builds(
    lambda turn, count: reply(*range(count), turn=turn), turn=st.integers(1, 3), count=st.integers(0, 4)
)
CALLS = st.builds(a_call, position=POSITIONS, turn=st.integers(1, 3)) | st.builds(
    a_done_call, text=st.sampled_from(["0", "", "done"]), position=POSITIONS, turn=st.integers(1, 3)
)
USERS = st.just(UserMessage(text="hello"))
ENTRIES = st.lists(st.one_of(REPLIES, CALLS, USERS, POSITIONS.map(stray)), max_size=25)


@given(ENTRIES)
def test_every_call_is_followed_by_its_one_result_whatever_the_record_holds(entries: list[Message | Call]) -> None:
    messages = to_messages(entries)
    while messages:
        message, *messages = messages
        assert not isinstance(message, ToolMessage)
        wanted = [call.call_id for call in message.calls] if isinstance(message, AssistantMessage) else []
        results, messages = messages[: len(wanted)], messages[len(wanted) :]
        assert [result.call_id for result in results if isinstance(result, ToolMessage)] == wanted


@given(ENTRIES)
def test_nothing_that_was_said_is_lost_or_moved_whatever_the_record_holds(entries: list[Message | Call]) -> None:
    spoken = [entry for entry in entries if isinstance(entry, UserMessage | AssistantMessage)]
    assert [message for message in to_messages(entries) if not isinstance(message, ToolMessage)] == spoken


def test_results_stand_in_call_order_when_they_were_stored_in_another() -> None:
    messages = to_messages([reply(0, 1), a_done_call("late", 1), a_done_call("early", 0)])
    assert [message.text for message in messages[1:] if isinstance(message, ToolMessage)] == ["early", "late"]


def test_call_without_a_result_gets_one_that_says_so_when_the_history_is_read() -> None:
    [_, result] = to_messages([reply(0), a_call(0)])
    assert result == ToolMessage(call_id=CallId("call_1_1_0"), name="search", text=NO_RESULT, is_error=True)


def test_result_without_a_call_is_left_out_when_the_history_is_read() -> None:
    assert to_messages([UserMessage(text="a"), stray(0), a_done_call("orphan", 2)]) == [UserMessage(text="a")]


def test_error_stays_marked_when_it_becomes_a_message() -> None:
    [_, result] = to_messages([reply(0), a_done_call("boom", is_error=True)])
    assert isinstance(result, ToolMessage)
    assert (result.text, result.is_error) == ("boom", True)
