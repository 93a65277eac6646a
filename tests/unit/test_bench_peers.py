"""How a peer is spoken to."""

import io
import json
import sys

import pytest

from bench.peer.serving import multiply, serve


def test_peer_answers_each_line_with_when_it_began_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO('["s", "one"]\n["s", "two"]\n'))
    monkeypatch.setattr(sys, "stdout", out)
    serve(lambda session, question: f"{session} {question}")
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer for _, _, answer in answers] == ["s one", "s two"]
    assert all(began <= ended for began, ended, _ in answers)


def test_peer_does_not_take_what_a_library_prints_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO('["s", "one"]\n'))
    monkeypatch.setattr(sys, "stdout", out)
    serve(lambda *_: print("a note") or "answer")
    assert len(out.getvalue().splitlines()) == 1


def test_tool_multiplies() -> None:
    assert multiply("3*4") == "12"
