"""Questions to people page by page: each once and in order, and no page larger than a function may answer with."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stepagent.answering import answer, read_interaction
from stepagent.api import runs
from stepagent.api.interactions import InteractionsQuery, show_interactions
from stepagent.api.query import read_query
from stepagent.api.runs import show_session
from stepagent.errors import InvalidRequest, NotFound
from stepagent.runs import InteractionId, Principal, RunKey
from stepagent.store import questions as store
from tests.bucket import bucket_in_memory
from tests.builders import OWNER, RUN_ID
from tests.questions_in_record import Loop, a_question, an_approval, asked, begun, install, make_later
from tests.tables import tables_in_memory

ANSWER_BYTES = 6 * 1024 * 1024  # that a function may answer with
LONG = 700_000  # characters of an argument: some of them fit into a page, and ten do not
MIXED = 'a"b\\c\nä😀'  # which JSON writes longer than it is, and JSON in JSON longer still


@pytest.fixture(scope="module", autouse=True)
def _record() -> Iterator[None]:
    with tables_in_memory(), bucket_in_memory():
        yield


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return install(monkeypatch)


def short(loop: Loop, number: int) -> list[InteractionId]:
    """So many short questions."""
    begun(*(calls := [a_question(position) for position in range(number)]))
    return [asked(loop, call) for call in calls]


def long(loop: Loop, number: int, text: str = "x" * LONG) -> list[InteractionId]:
    """So many approvals of calls with a long argument."""
    calls = [an_approval(position, arguments={"text": text}) for position in range(number)]
    begun(*calls)
    return [asked(loop, call) for call in calls]


def page(**query: Any) -> dict[str, Any]:
    return show_interactions(InteractionsQuery(**query), OWNER)


def ids(shown: dict[str, Any]) -> list[str]:
    return [each["interaction_id"] for each in shown["data"]]


def pages(**query: Any) -> Iterator[dict[str, Any]]:
    """The pages of the list, read by `next`."""
    after: str | None = None
    while True:
        shown = page(**query, after=after)
        yield shown
        after = shown["next"]
        assert shown["has_more"] == (after is not None)
        if after is None:
            return


def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The session of the run that asks."""
    monkeypatch.setattr(runs, "session_key_of", lambda *_: RunKey.parse(RUN_ID).session)
    return show_session("s", OWNER)


def sent_bytes(shown: dict[str, Any]) -> int:
    """What a function answers with: JSON with the page's JSON as a text in it."""
    return len(json.dumps({"statusCode": 200, "body": json.dumps(shown)}))


def reads(monkeypatch: pytest.MonkeyPatch) -> list[InteractionId]:
    """The questions that are read from now on."""
    read: list[InteractionId] = []
    load = store.load_question

    def noted(question: InteractionId) -> store.StoredQuestion | None:
        read.append(question)
        return load(question)

    monkeypatch.setattr(store, "load_question", noted)
    return read


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
def test_pages_hold_every_question_once_and_in_order(loop: Loop, limit: int) -> None:
    questions = short(loop, 4)
    found = [ids(each) for each in pages(limit=limit)]
    assert [question for each in found for question in each] == questions
    assert len(found) == -(-4 // limit)


def test_list_without_questions_is_one_page_that_is_empty(loop: Loop) -> None:
    assert page() == {"object": "list", "data": [], "has_more": False, "next": None}


@pytest.mark.parametrize(
    "text", ["x" * LONG, MIXED * (LONG // 16), '"' * (LONG // 2)], ids=["plain", "mixed", "quotes"]
)
def test_page_ends_before_it_is_larger_than_a_function_may_answer_with(loop: Loop, text: str) -> None:
    questions = long(loop, 10, text)
    found = list(pages(limit=100))
    assert [question for each in found for question in ids(each)] == questions
    assert max(map(sent_bytes, found)) < ANSWER_BYTES
    assert 1 < len(found) < len(questions)


@pytest.mark.parametrize("text", ["x" * LONG, '"' * (LONG // 2)], ids=["plain", "quotes"])
def test_session_shows_its_first_questions_and_names_all_when_they_are_too_much_for_an_answer(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    questions = long(loop, 10, text)
    found = session(monkeypatch)
    shown = [each["interaction_id"] for each in found["interactions"]]
    assert (shown, list(found["runs"][0]["interactions"])) == (questions[: len(shown)], questions)
    assert sent_bytes(found) < ANSWER_BYTES
    assert 1 < len(shown) < len(questions)


def test_session_reads_no_question_behind_those_that_it_shows(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    questions, read = long(loop, 10), reads(monkeypatch)
    shown = session(monkeypatch)["interactions"]
    assert read == questions[: len(shown) + 1]  # the last one tells that it does not fit


def test_question_longer_than_a_page_is_a_page_of_its_own(loop: Loop) -> None:
    questions = long(loop, 3, "x" * 4_500_000)
    assert [ids(each) for each in pages()] == [[question] for question in questions]


def test_no_question_is_read_that_is_behind_the_page(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    questions, read = short(loop, 5), reads(monkeypatch)
    page(limit=2)
    assert read == questions[:3]  # the third one tells that there is more


def test_list_goes_on_behind_a_question_that_was_answered_meanwhile(loop: Loop) -> None:
    first, second, third = short(loop, 3)
    after = page(limit=1)["next"]
    answer(first, OWNER, "blue")
    assert (after, ids(page(after=after))) == (first, [second, third])


def test_questions_that_are_over_take_no_place_in_a_page(loop: Loop) -> None:
    first, second, third, last = short(loop, 4)
    for question in (first, third):
        answer(question, OWNER, "blue")
    assert [ids(each) for each in pages(limit=1)] == [[second], [last]]


def test_page_is_the_last_one_when_what_follows_has_expired(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    [first, _] = short(loop, 2)
    make_later(monkeypatch, 61)
    assert page(after=first) == {"object": "list", "data": [], "has_more": False, "next": None}


@pytest.mark.parametrize("owner", ["nobody", "bob"])
def test_list_goes_on_behind_ones_own_questions_alone(loop: Loop, owner: str) -> None:
    [question] = short(loop, 1)
    with pytest.raises(NotFound) as refused:
        show_interactions(InteractionsQuery(after=question if owner == "bob" else "unknown"), Principal(owner))
    assert refused.value.param == "after"
    assert read_interaction(question, OWNER).status == "pending"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"status": "answered"}, "status"),
        ({"page": "2"}, "page"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused_by_name(given: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_query(given, InteractionsQuery)
    assert refused.value.param == param
