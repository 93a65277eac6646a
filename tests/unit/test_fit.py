"""A conversation cut to what fits: in whole groups, and never without the last question."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.history import estimate_tokens, fit, in_groups
from stepagent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from tests.builders import call_id

QUESTION = UserMessage(text="And now?")
ROOMY = 10_000_000


def size(messages: Sequence[Message]) -> int:
    return sum(map(estimate_tokens, messages))


def a_user(text: str) -> UserMessage:
    return UserMessage(text=text)


def a_reply(text: str) -> AssistantMessage:
    return AssistantMessage(text=text)


def a_group(turn: int, *results: str) -> list[Message]:
    """A reply with calls, and their results."""
    calls = tuple(ToolCall(call_id=call_id(n, turn), name="search") for n in range(len(results)))
    answers = [
        ToolMessage(call_id=call.call_id, name="search", text=text) for call, text in zip(calls, results, strict=True)
    ]
    return [AssistantMessage(calls=calls), *answers]


def test_everything_stays_when_there_is_room() -> None:
    messages = [a_user("a"), *a_group(1, "x", "y"), a_reply("b"), QUESTION]
    assert fit(messages, ROOMY) == messages


def test_oldest_goes_first_when_room_is_short() -> None:
    old: list[Message] = [a_user("old " * 100), a_reply("old")]
    new: list[Message] = [a_user("new"), a_reply("new")]
    assert fit([*old, *new, QUESTION], size([*new, QUESTION])) == [*new, QUESTION]


def test_reply_and_its_results_go_together_when_room_is_short_by_one_token() -> None:
    group = a_group(1, "x" * 300, "y" * 300)
    whole = [a_user("a"), *group, a_reply("b"), QUESTION]
    assert fit(whole, size(whole) - 1) == [QUESTION]
    assert fit([a_user("0"), *whole], size(whole)) == whole


def test_question_stays_when_it_alone_is_too_long() -> None:
    assert fit([a_user("a"), a_reply("b"), a_user("x" * 9_000)], 10) == [a_user("x" * 9_000)]


def test_work_on_the_last_question_stays_when_room_is_short() -> None:
    current = [QUESTION, *a_group(1, "x"), *a_group(2, "y")]
    assert fit([a_user("a"), a_reply("b"), *current], size(current)) == current


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_conversation_begins_with_a_person_when_its_beginning_is_cut(kept: int) -> None:
    spoken: list[Message] = [message for n in range(3) for message in (a_user(f"q{n}"), a_reply(f"a{n}"))]
    budget = size([*spoken[-kept:], QUESTION])
    assert isinstance(fit([*spoken, QUESTION], budget)[0], UserMessage)


def test_long_results_are_cut_with_a_note_when_the_work_alone_is_too_long() -> None:
    current = [QUESTION, *a_group(1, "ä" * 20_000, "short")]
    [*_, long, short] = fit(current, 3_000)
    assert "… (cut to fit: " in long.text
    assert "of 40000 bytes)" in long.text
    assert short.text == "short"
    assert size([*current[:2], long, short]) <= 3_000


def test_longest_results_are_cut_first_when_the_work_alone_is_too_long() -> None:
    current = [QUESTION, *a_group(1, "a" * 40_000, "b" * 2_000)]
    [*_, long, short] = fit(current, 4_000)
    assert len(long.text) < 40_000
    assert short.text == "b" * 2_000


def test_note_tells_how_much_is_left_when_characters_are_wide() -> None:
    [*_, result] = fit([QUESTION, *a_group(1, "😀" * 3_000)], 1_000)
    kept = result.text.partition("\n… (cut")[0]
    assert set(kept) == {"😀"}
    assert f"cut to fit: {len(kept.encode())} of 12000 bytes" in result.text


@pytest.mark.parametrize("messages", [[], [a_reply("a")], a_group(1, "x"), [QUESTION]])
def test_nothing_is_lost_when_there_is_little(messages: list[Message]) -> None:
    assert fit(messages, ROOMY) == messages


@pytest.mark.parametrize("budget", [0, -1, -(10**9)])
def test_question_and_its_work_stay_when_there_is_no_room_at_all(budget: int) -> None:
    current = [QUESTION, *a_group(1, "x")]
    assert fit([a_user("a"), *current], budget) == current


def test_longer_text_counts_for_more_whatever_holds_it() -> None:
    call = ToolCall(call_id=call_id(0), name="search", arguments='{"q": "' + "x" * 300 + '"}')
    assert estimate_tokens(AssistantMessage(calls=(call,))) > estimate_tokens(a_reply("")) + 90
    assert estimate_tokens(UserMessage(text="", images=("https://a/b.png",))) > estimate_tokens(a_user("")) + 500


TEXTS = st.builds(lambda char, times: char * times, st.sampled_from(["x", "ä", "😀 "]), st.integers(0, 4_000))
ROUNDS = st.lists(
    st.one_of(
        TEXTS.map(lambda text: [a_user(text)]),
        TEXTS.map(lambda text: [a_reply(text)]),
        st.builds(
            lambda turn, results: a_group(turn, *results), st.integers(1, 9), st.lists(TEXTS, min_size=1, max_size=3)
        ),
    ),
    max_size=12,
)
HISTORIES = ROUNDS.map(lambda rounds: [message for each in rounds for message in each])
BUDGETS = st.integers(-100, 12_000)


@given(HISTORIES, BUDGETS)
def test_every_call_keeps_its_results_whatever_is_cut(messages: list[Message], budget: int) -> None:
    for group in in_groups(fit(messages, budget)):
        first, *results = group
        wanted = [call.call_id for call in first.calls] if isinstance(first, AssistantMessage) else []
        assert [result.call_id for result in results if isinstance(result, ToolMessage)] == wanted


def last_question(messages: list[Message]) -> int:
    """Where the last question stands; 0 where there is none."""
    return max((place for place, message in enumerate(messages) if isinstance(message, UserMessage)), default=0)


def without_results(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if not isinstance(message, ToolMessage)]


@given(HISTORIES, BUDGETS)
def test_last_question_and_what_follows_it_stay_in_order_whatever_is_cut(messages: list[Message], budget: int) -> None:
    current = messages[last_question(messages) :]
    fitted = fit(messages, budget)
    kept = fitted[len(fitted) - len(current) :]
    assert without_results(kept) == without_results(current)
    assert len(kept) == len(current)


@given(HISTORIES, BUDGETS)
def test_what_stays_is_the_newest_and_unchanged_where_there_is_room(messages: list[Message], budget: int) -> None:
    fitted = fit(messages, budget)
    if size(messages[last_question(messages) :]) <= budget:
        assert fitted == messages[len(messages) - len(fitted) :]
        assert size(fitted) <= budget


@given(HISTORIES, BUDGETS)
def test_result_fits_whenever_results_can_be_cut_enough(messages: list[Message], budget: int) -> None:
    current = messages[last_question(messages) :]
    least = [
        message.model_copy(update={"text": message.text[:100] + "." * 100})
        if isinstance(message, ToolMessage)
        else message
        for message in current
    ]
    if size(least) + 150 * len(least) <= budget:
        assert size(fit(messages, budget)) <= budget


@given(HISTORIES, BUDGETS)
def test_conversation_never_begins_with_a_reply_when_somebody_asked(messages: list[Message], budget: int) -> None:
    fitted = fit(messages, budget)
    if any(isinstance(message, UserMessage) for message in messages) and len(fitted) < len(messages):
        assert isinstance(fitted[0], UserMessage)


def results_in(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


@given(HISTORIES, BUDGETS)
def test_no_result_grows_by_its_note_whatever_is_cut(messages: list[Message], budget: int) -> None:
    cut = results_in(fit(messages, budget))
    whole = results_in(messages)[len(results_in(messages)) - len(cut) :]
    assert all(len(short.encode()) <= len(long.encode()) for short, long in zip(cut, whole, strict=True))


@pytest.mark.parametrize("length", [400, 401, 420, 440, 500])
def test_result_is_left_as_it_is_when_the_note_is_longer_than_what_it_saves(length: int) -> None:
    [_, _, result] = fit([QUESTION, *a_group(1, "x" * length)], 0)
    assert len(result.text) <= length
