"""What agents keep and look up, through the deployed functions: notes, long results, documents."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stepagent.messages import CallId
from stepagent.runs import CallKey, SessionKey
from stepagent.settings import settings
from stepagent.store.documents import read_documents
from stepagent.store.notes import MAX_NOTES, Note, add_note, load_notes
from tests.integration.runs import calls_of, finish, probe, results_of
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel


def calling(name: str, **arguments: Any) -> Reply:
    return Reply(calls=((name, arguments),))


DONE = Reply(text="done")


def test_note_is_recalled_in_a_later_run_of_its_session_alone(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(calling("remember", note="Ann likes tea.", topic="taste"), DONE)
    finish(loop, "remember", "archivist", session_id="notes")
    model.script(calling("recall", query="tea"), DONE)
    later = finish(loop, "recall", "archivist", session_id="notes")
    model.script(calling("recall"), DONE)
    other = finish(loop, "recall", "archivist", session_id="other notes")
    [recalled] = json.loads(results_of(later)[-1])["notes"]
    assert (recalled["text"], recalled["topic"]) == ("Ann likes tea.", "taste")
    assert json.loads(results_of(other)[-1]) == {"notes": [], "total": 0}


@pytest.fixture
def session(loop: LocalLoop, request: pytest.FixtureRequest) -> SessionKey:
    """A session that nothing was noted in."""
    return SessionKey(re.sub("[^a-z]", "", request.node.name))


def call_id(position: int) -> CallId:
    return CallKey(1, 1, position).call_id


def test_note_is_kept_once_when_its_call_is_repeated(session: SessionKey) -> None:
    assert add_note(session, call_id(0), Note(text="first"))
    assert add_note(session, call_id(0), Note(text="again"))
    assert [note.text for note in load_notes(session)] == ["first"]


def test_notes_stand_in_the_order_of_their_calls(session: SessionKey) -> None:
    for position in (10, 9, 0):
        add_note(session, call_id(position), Note(text=str(position)))
    assert [note.text for note in load_notes(session)] == ["0", "9", "10"]


def test_no_more_notes_are_kept_than_a_session_may_have(session: SessionKey) -> None:
    kept = [add_note(session, call_id(position), Note(text="x")) for position in range(MAX_NOTES + 2)]
    assert kept == [True] * MAX_NOTES + [False] * 2
    assert add_note(session, call_id(0), Note(text="a repeat of the first"))
    assert len(load_notes(session)) == MAX_NOTES


def test_long_result_is_read_to_its_end_as_the_preview_and_the_pieces_say(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    whole = "中文 text. " * 3_000
    model.script(Reply(calls=(probe("repeat", "中文 text. ", 3_000),)), DONE)
    run = finish(loop, "long", "archivist", session_id="long")
    preview = results_of(run)[-1]
    [(total, kept, offset)] = re.findall(r'\[(\d+) bytes .*\(call_id="(\w+)", offset_bytes=(\d+)\)', preview)
    read, following = preview.partition("\n… [")[0], int(offset)
    while following is not None:
        model.script(calling("read_result", call_id=kept, offset_bytes=following), DONE)
        piece = json.loads(results_of(finish(loop, "more", "archivist", session_id="long"))[-1])
        read, following = read + piece["text"], piece["next_offset"]
    assert (read, int(total)) == (whole, len(whole.encode()))


def test_long_result_is_that_of_its_own_session_when_another_has_the_same_call(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(probe("repeat", "x", 20_000),)), DONE)
    kept = calls_of(finish(loop, "long", "archivist", session_id="theirs"))[-1].call_id
    model.script(Reply(calls=(probe("repeat", "y", 20_000),)), calling("read_result", call_id=kept), DONE)
    mine = finish(loop, "long", "archivist", session_id="mine")
    assert json.loads(results_of(mine)[-1])["text"][:3] == "yyy"


def test_documents_are_found_by_the_deployed_function(loop: LocalLoop, model: ScriptedModel) -> None:
    model.script(calling("search_docs", query="到达上限后会怎样", limit=1), DONE)
    [passage] = json.loads(results_of(finish(loop, "search", "archivist"))[-1])
    assert (passage["file"], passage["heading"]) == ("overview.zh.md", "StepAgent 简介 > 上限")


def test_documents_below_a_prefix_are_read_in_order_when_the_bucket_holds_others(loop: LocalLoop) -> None:
    s3 = loop.client("s3")
    for key, body in {
        "docs/b.md": b"\xef\xbb\xbfB",
        "docs/a/a.txt": b"A",
        "docs/c.png": b"C",
        "other/d.md": b"D",
    }.items():
        s3.put_object(Bucket=settings().bucket, Key=key, Body=body)
    assert read_documents("docs/") == [("a/a.txt", "A"), ("b.md", "B")]
