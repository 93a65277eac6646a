"""Search in texts, whatever their script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.tools.search import Index, Text

TEXTS = [
    Text("The loop", "A state machine runs turns until the model answers without calling a tool."),
    Text("Limits", "max_turns bounds how often a model is asked. Runs end softly."),
    Text("Wetter", "In Köln regnet es; Straßen sind naß."),
    Text("循环", "状态机驱动循环：观察、思考、行动。模型可以调用工具。"),
    Text("限制", "每次运行都有上限，到达上限后给出最后的回答。"),
    Text("東京", "東京タワーの高さは333メートルです。"),
    Text("날씨", "서울의 날씨는 맑습니다."),
    Text("मौसम", "आज दिल्ली में बारिश है।"),
]


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(TEXTS)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("state machine", 0),
        ("loops", 0),
        ("Does the machine call a tool?", 0),
        ("limit", 1),
        ("max_turns", 1),
        ("LIMITS", 1),
        ("koln", 2),
        ("循环是怎么驱动的", 3),
        ("调用工具", 3),
        ("上限", 4),
        ("思", 3),
        ("ﾀﾜｰ", 5),
        ("333メートル", 5),
        ("서울", 6),
        ("दिल्ली", 7),
    ],
)
def test_best_text_comes_first_when_it_has_the_words(index: Index, query: str, best: int) -> None:
    assert index.search(query, 3)[0] == best


@pytest.mark.parametrize("query", ["", "  ", "?", '"', "xylophone", "NOT", "title:", "* ^ - ( ) { }", "\0"])
def test_nothing_is_found_when_no_text_has_a_word_of_the_query(index: Index, query: str) -> None:
    assert index.search(query, 3) == []


def test_title_counts_more_than_the_body_when_both_have_the_word() -> None:
    assert Index([Text("b", "word word"), Text("word", "b b")]).search("word", 2) == [1, 0]


def test_as_many_are_found_as_are_asked_for() -> None:
    assert len(Index([Text("", f"word {number}") for number in range(9)]).search("word", 4)) == 4


@given(st.text(max_size=200), st.lists(st.text(max_size=50), max_size=3))
def test_search_ends_in_positions_of_texts_whatever_is_asked(query: str, bodies: list[str]) -> None:
    index = Index(Text("", body) for body in bodies)
    assert set(index.search(query, 5)) <= set(range(len(bodies)))
