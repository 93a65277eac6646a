"""When a refusal of ours is what the bank calls a 400."""

import pytest

from tests.conformance.assert_http import http_statuses
from tests.conformance.evidence import Answer, Evidence
from tests.conformance.people import STILL_OPEN


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (Answer(422, {}, "", STILL_OPEN), True),
        (Answer(404, {}, "", STILL_OPEN), True),
        (Answer(400, {}, ""), True),
        (Answer(422, {}, ""), False),
        (Answer(404, {}, ""), False),
        (Answer(200, {}, ""), False),
        (Answer(500, {}, ""), False),
    ],
)
def test_more_precise_refusal_counts_only_when_the_question_stayed_open(answer: Answer, passes: bool) -> None:
    assert (http_statuses([400], Evidence(answers=[answer])) is None) is passes


def test_precise_status_counts_when_the_case_names_it() -> None:
    assert http_statuses([422], Evidence(answers=[Answer(422, {}, "", STILL_OPEN)])) is None
