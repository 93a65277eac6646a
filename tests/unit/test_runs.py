"""Runs listed and read with what was said in them, over tables in memory."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from stepagent.api import conversation
from stepagent.api import runs as subject
from stepagent.api.beginning import session_key_of
from stepagent.api.conversation import shown_entries
from stepagent.api.query import read_query
from stepagent.api.runs import EntriesQuery, RunsQuery, read_run_request, show_conversation, show_runs, show_session
from stepagent.api.shapes import run_view
from stepagent.errors import InvalidRequest, NotFound
from stepagent.messages import AssistantMessage, ToolCall, UserMessage
from stepagent.runs import CallAddress, Outcome, Principal, Run, RunKey, RunStatus, StopReason
from stepagent.store.conversation import put_call, put_message
from stepagent.store.runs import close_run, create_run
from stepagent.store.table import transact
from tests.builders import NOON, OWNER, a_call, a_done_call, a_run, call_id
from tests.tables import empty_tables, tables_in_memory

Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def _empty(_tables: None) -> None:
    empty_tables()


def begun(session: str, ordinal: int = 1, minute: int = 0, owner: Principal = OWNER, **changes: Any) -> Run:
    """A run that stands in the record."""
    run_id = RunKey(session_key_of(owner, session), ordinal).run_id
    run = a_run(run_id=run_id, session_id=session, owner=owner, created_at=NOON + timedelta(minutes=minute), **changes)
    create_run(run, [UserMessage(text="Hi")])
    return run


def ended(run: Run, status: RunStatus = RunStatus.COMPLETED) -> Run:
    assert close_run(run, Outcome(status, StopReason.ANSWERED, "a long answer"))
    return run


def listed(owner: Principal = OWNER, **query: Any) -> list[str]:
    return [run["run_id"] for run in show_runs(RunsQuery(**query), owner)["data"]]


def paged(**query: Any) -> list[list[str]]:
    """The pages of a list, read by `next`."""
    pages: list[list[str]] = []
    after: str | None = None
    while True:
        page = show_runs(RunsQuery(**query, after=after), OWNER)
        pages.append([run["run_id"] for run in page["data"]])
        after = page["next"]
        assert page["has_more"] == (after is not None)
        if after is None:
            return pages


def test_runs_are_listed_from_the_newest_on_whatever_their_session() -> None:
    ids = [begun(session, minute=minute).run_id for minute, session in enumerate(("zoo", "ark", "mill"))]
    assert listed() == ids[::-1]


def test_run_is_not_listed_for_another_owner() -> None:
    begun("s")
    assert listed(Principal("bob")) == []
    assert listed(Principal("bob"), session_id="s") == []


def test_run_of_a_called_agent_is_not_listed() -> None:
    parent = begun("s")
    begun("child", parent=CallAddress(run_id=parent.run_id, call_id=call_id(0)))
    assert listed() == [parent.run_id]


def test_list_has_no_answers() -> None:
    ended(begun("s"))
    [run] = show_runs(RunsQuery(), OWNER)["data"]
    assert (run["status"], "answer" in run) == ("completed", False)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_pages_hold_every_run_once_and_in_order(limit: int) -> None:
    ids = [begun(f"s{minute}", minute=minute).run_id for minute in range(4)]
    pages = paged(limit=limit)
    assert [run_id for page in pages for run_id in page] == ids[::-1]
    assert len(pages) == -(-4 // limit)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_pages_hold_every_run_of_a_session_once_and_in_order(limit: int) -> None:
    ids = [ended(begun("s", ordinal)).run_id for ordinal in (1, 2, 3)]
    begun("other")
    assert [run_id for page in paged(limit=limit, session_id="s") for run_id in page] == ids[::-1]


def test_runs_begun_at_the_same_moment_are_all_listed() -> None:
    ids = {begun(f"s{number}").run_id for number in range(5)}
    assert {run_id for page in paged(limit=2) for run_id in page} == ids


def test_pages_hold_the_runs_of_a_status_alone() -> None:
    going_on = [begun(f"s{minute}", minute=minute).run_id for minute in range(3)]
    for minute in range(3, 6):
        ended(begun(f"s{minute}", minute=minute))
    assert [run_id for page in paged(limit=2, status="running") for run_id in page] == going_on[::-1]


def test_list_of_a_status_goes_on_when_a_page_has_read_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_MAX_READ", 2)
    first = begun("s0")
    for minute in range(1, 6):
        ended(begun(f"s{minute}", minute=minute))
    assert paged(status="running") == [[], [], [first.run_id]]


def test_list_is_refused_when_it_goes_on_from_another_owners_run() -> None:
    theirs = begun("s", owner=Principal("bob"))
    with pytest.raises(NotFound):
        listed(after=theirs.run_id)


def test_list_of_a_session_is_refused_when_it_goes_on_from_another_ones_run() -> None:
    other = begun("other")
    with pytest.raises(InvalidRequest) as refused:
        listed(session_id="s", after=other.run_id)
    assert refused.value.param == "after"


@pytest.mark.parametrize(
    ("query", "param"),
    [({"limit": "0"}, "limit"), ({"limit": "101"}, "limit"), ({"limit": "x"}, "limit"), ({"status": "gone"}, "status")],
)
def test_list_is_refused_by_the_name_of_what_is_wrong(query: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_query(query, RunsQuery)
    assert refused.value.param == param


def test_list_is_refused_when_a_parameter_is_unknown() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_query({"page": "2"}, RunsQuery)
    assert (refused.value.param, refused.value.error_code) == ("page", "unsupported_parameter")


# ---- what was said


def test_conversation_is_that_of_its_run_alone() -> None:
    run = ended(begun("s"))
    later = begun("s", ordinal=2)
    transact([put_message(later.key, 1, AssistantMessage(text="later"))])
    assert [entry["text"] for entry in show_conversation(run.run_id, EntriesQuery(), OWNER)["data"]] == ["Hi"]


def test_conversation_shows_messages_calls_and_results_in_order() -> None:
    run = begun("s")
    reply = AssistantMessage(text="Let me look.", calls=(ToolCall(call_id=call_id(0), name="search"),))
    transact([put_message(run.key, 1, reply), put_call(run.key.session, a_done_call("found"))])
    asked, said, call = show_conversation(run.run_id, EntriesQuery(), OWNER)["data"]
    assert (asked["role"], said["calls"], call["id"]) == ("user", ["call_1_1_0"], "call_1_1_0")
    assert (call["arguments"], call["result"]["text"], call["result"]["is_preview"]) == ({"q": "x"}, "found", False)
    assert [entry["n"] for entry in (asked, said, call)] == [1, 2, 3]


def test_conversation_of_another_owner_is_not_found() -> None:
    with pytest.raises(NotFound):
        show_conversation(begun("s").run_id, EntriesQuery(), Principal("bob"))


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_pages_hold_every_entry_once_and_in_order(limit: int) -> None:
    entries = [UserMessage(text=str(number)) for number in range(7)]
    read: list[str] = []
    more = True
    while more:
        page, more = shown_entries(entries, len(read), limit)
        read += [entry["text"] for entry in page]
    assert read == [entry.text for entry in entries]


def test_page_ends_before_it_is_too_large_and_holds_one_entry_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "_PAGE_BYTES", 250)
    entries = [UserMessage(text="x" * size) for size in (1_000, 50, 50)]
    assert [[entry["n"] for entry in shown_entries(entries, after, 9)[0]] for after in (0, 1, 2)] == [[1], [2], [3]]


def test_long_result_is_shown_by_its_beginning_and_its_size() -> None:
    [[call], _] = shown_entries([a_done_call("ü" * 3_000)], 0, 1)
    assert (call["result"]["is_preview"], call["result"]["size_bytes"]) == (True, 6_000)
    assert len(call["result"]["text"]) < 2_100


def test_long_arguments_are_null() -> None:
    [[call], _] = shown_entries([a_call(arguments={"q": "x" * 30_000})], 0, 1)
    assert (call["arguments"], call["result"]) == (None, None)


def test_image_that_came_as_data_is_not_repeated() -> None:
    message = UserMessage(text="Look", images=("data:image/png;base64,AAAA", "https://example.com/a.png"))
    [[shown], _] = shown_entries([message], 0, 1)
    assert shown["images"] == ["data:image/png;base64,…", "https://example.com/a.png"]


# ---- sessions


def test_session_shows_its_runs_and_the_active_one() -> None:
    first, second = ended(begun("s")), begun("s", ordinal=2)
    session = show_session("s", OWNER)
    assert [run["run_id"] for run in session["runs"]] == [second.run_id, first.run_id]
    assert (session["active_run"], session["interactions"]) == (second.run_id, [])


def test_session_has_no_active_run_when_its_last_one_has_ended() -> None:
    ended(begun("s"))
    assert show_session("s", OWNER)["active_run"] is None


@pytest.mark.parametrize("owner", [OWNER, Principal("bob")])
def test_session_is_not_found_when_this_owner_has_none_of_that_name(owner: Principal) -> None:
    begun("s")
    with pytest.raises(NotFound):
        show_session("s" if owner != OWNER else "t", owner)


# ---- requests


@pytest.mark.parametrize("name", ["agent", "model"])
def test_request_is_the_same_as_a_chat_message_of_its_text(name: str) -> None:
    request = read_run_request(b'{"%s": "helper", "input": "Hi", "session_id": "s"}' % name.encode())
    chat = request.as_chat()
    assert (chat.model, chat.messages[0].text, chat.session_id) == ("helper", "Hi", "s")


def test_request_takes_messages_as_chat_completions_do() -> None:
    body = b'{"agent": "helper", "input": [{"role": "system", "content": "Short."}, {"role": "user", "content": "Hi"}]}'
    assert read_run_request(body).as_chat().system == "Short."


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"agent": "helper"}', "input"),
        (b'{"input": "Hi"}', "agent"),
        (b'{"agent": "helper", "input": " "}', "input"),
        (b'{"agent": "helper", "input": []}', "input"),
        (b'{"agent": "helper", "input": 7}', "input"),
        (b'{"agent": "helper", "input": [{"role": "assistant", "content": "Hi"}]}', "input"),
        (b'{"agent": "helper", "input": "Hi", "stream": true}', "stream"),
        (b'{"agent": "helper", "input": "Hi", "metadata": {"a": 1}}', "metadata.a"),
    ],
)
def test_request_is_refused_by_the_name_of_what_is_wrong(body: bytes, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_run_request(body)
    assert refused.value.param == param


def test_run_shows_nothing_of_what_it_was_given_for_itself_alone() -> None:
    class More(Run):
        """A run with a field that nobody decided to show."""

        internal: str = "x"

    shown = run_view(More(**a_run(system="Secret.").model_dump()))
    assert not {"internal", "owner", "tools", "system", "used_key", "pending"} & set(shown)
