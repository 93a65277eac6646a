"""What of a conversation's time counts as overhead."""

import pytest

from bench.spans import Asked, Span, by_turn_ms, gaps_s, medians, overhead_ms, slope

# Two replies of 1 s each, in a run of 3 s: 0.2 s before, 0.5 s between and 0.3 s behind them.
RUN = Asked(Span(10.0, 13.0), [Span(10.2, 11.2), Span(11.7, 12.7)])


def test_gaps_are_the_time_around_the_replies() -> None:
    assert gaps_s(RUN) == pytest.approx([0.2, 0.5, 0.3])


def test_overhead_is_a_share_of_each_reply() -> None:
    assert overhead_ms([RUN]) == pytest.approx(500)


def test_overhead_of_several_questions_counts_all_their_replies() -> None:
    answer = Asked(Span(20.0, 21.5), [Span(20.1, 21.2)])
    assert overhead_ms([RUN, answer]) == pytest.approx(1400 / 3)


def test_turns_of_one_question_lie_between_its_replies() -> None:
    assert by_turn_ms([RUN]) == pytest.approx([500])


def test_turns_of_several_questions_are_the_questions() -> None:
    answer = Asked(Span(20.0, 21.5), [Span(20.1, 21.2)])
    assert by_turn_ms([answer, answer]) == pytest.approx([400, 400])


def test_slope_is_what_a_turn_adds() -> None:
    assert slope([50.0, 52.0, 54.0]) == pytest.approx(2)


def test_slope_of_a_single_turn_is_none() -> None:
    assert slope([50.0]) == 0


def test_medians_are_taken_turn_by_turn() -> None:
    assert medians([[1, 10], [3, 30], [2, 20]]) == [2, 20]
