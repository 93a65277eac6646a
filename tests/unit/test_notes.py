"""The tools `remember` and `recall`, over notes in memory."""

from typing import Any

import pytest

from stepagent.messages import CallId
from stepagent.runs import CallKey, SessionKey
from stepagent.store.notes import MAX_NOTE_CHARS, MAX_NOTES, MAX_TOPIC_CHARS, Note
from stepagent.tools import ToolContext, ToolError
from tests.builders import NOON, OWNER, RUN_ID
from tests.functions import load

ITEM_BYTES = 400 * 1024  # of DynamoDB

remembering = load("tool_remember", "app")
recalling = load("tool_recall", "app")


class Notebook:
    """Stands for `store.notes`."""

    def __init__(self, *notes: Note, most: int = MAX_NOTES) -> None:
        self.notes = {CallId(f"call_1_1_{number}"): note for number, note in enumerate(notes)}
        self.most = most

    def add_note(self, session: SessionKey, call_id: CallId, note: Note) -> bool:
        full = len(self.notes) >= self.most and call_id not in self.notes
        if not full:
            self.notes.setdefault(call_id, note)
        return not full

    def load_notes(self, session: SessionKey) -> list[Note]:
        return list(self.notes.values())

    def placed(self, monkeypatch: pytest.MonkeyPatch) -> "Notebook":
        monkeypatch.setattr(remembering, "add_note", self.add_note)
        monkeypatch.setattr(recalling, "load_notes", self.load_notes)
        return self


def a_context(position: int = 0) -> ToolContext:
    return ToolContext(RUN_ID, SessionKey("abc"), CallKey(1, 2, position).call_id, OWNER, NOON)


def remember(note: str, **arguments: Any) -> Any:
    return remembering.handler.run({"note": note, **arguments}, a_context())


def recall(query: str = "") -> list[str]:
    return [note.text for note in recalling.handler.run({"query": query}, a_context(1))["notes"]]


NOTES = (
    Note(text="Ann likes window seats.", topic="travel"),
    Note(text="The budget is 500 euros.", topic="money"),
    Note(text="用户喜欢喝绿茶。", topic="饮食"),
)


def test_note_is_recalled_when_it_was_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    Notebook().placed(monkeypatch)
    assert remember("Ann likes tea.", topic="taste") == "Noted."
    assert recall() == ["Ann likes tea."]


@pytest.mark.parametrize("query", ["", "  "])
def test_all_notes_are_recalled_in_order_when_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    Notebook(*NOTES).placed(monkeypatch)
    assert recall(query) == [note.text for note in NOTES]


@pytest.mark.parametrize(
    ("query", "found"),
    [("seat", [0]), ("money", [1]), ("travel budget", [0, 1]), ("绿茶", [2]), ("饮食", [2]), ("xylophone", [])],
)
def test_matching_notes_are_recalled_when_a_query_has_their_words(
    monkeypatch: pytest.MonkeyPatch, query: str, found: list[int]
) -> None:
    Notebook(*NOTES).placed(monkeypatch)
    assert sorted(recall(query)) == sorted(NOTES[number].text for number in found)


def test_number_of_all_notes_is_told_when_none_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    Notebook(*NOTES).placed(monkeypatch)
    assert recalling.handler.run({"query": "xylophone"}, a_context()) == {"notes": [], "total": 3}


def test_model_reads_that_there_is_no_room_when_a_session_has_as_many_notes_as_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Notebook(*NOTES, most=3).placed(monkeypatch)
    with pytest.raises(ToolError, match="50 notes"):
        remember("One more.")


@pytest.mark.parametrize(("note", "topic"), [("", ""), ("x" * (MAX_NOTE_CHARS + 1), ""), ("x", "x" * 61)])
def test_note_is_refused_when_it_is_empty_or_long(monkeypatch: pytest.MonkeyPatch, note: str, topic: str) -> None:
    notebook = Notebook().placed(monkeypatch)
    with pytest.raises(ToolError, match="do not fit"):
        remember(note, topic=topic)
    assert notebook.notes == {}


@pytest.mark.parametrize("character", ["x", "中", "😀", "\0", '"'])
def test_all_notes_of_a_session_fit_an_item_whatever_they_say(character: str) -> None:
    note = Note(text=character * MAX_NOTE_CHARS, topic=character * MAX_TOPIC_CHARS)
    name = CallKey(999_999, 1_000, 19).call_id
    assert MAX_NOTES * (len(note.model_dump_json().encode()) + len(name)) < ITEM_BYTES - 1_000
