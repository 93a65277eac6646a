"""People in the loop at a terminal: the chat and the inbox against the real loop."""

import io
import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from local.api_client import ApiClient
from local.chat import CANCELLED, COMPLETED, NOT_ANSWERED, Chat
from local.inbox import Inbox
from local.prompts import LinePrompts
from tests.scripted_model import Reply, ScriptedModel

CHOOSE = ("ask_choice", {"question": "Which colour?", "options": ["Deep blue", "Red"]})
FILL_IN = ("ask_form", {"purpose": "a visit"})
SEND = ("guarded", {"action": "echo", "value": "sent"})
FORM = ("Ada", "nomail", "ada@example.org", "2026-12-24", "phone", "", "yes")
LEAVE = "^C"


class Person:
    """Somebody who types these lines, or leaves a question open, and reads all that is shown."""

    def __init__(self, api: httpx.Client, *given: str) -> None:
        self._base_url, self._left = str(api.base_url), list(given)
        self._console = Console(file=io.StringIO(), width=150)
        self._prompts = LinePrompts(self._console, self._read_line)

    def _read_line(self, prompt: str) -> str:
        if not self._left:
            raise EOFError
        if self._left[0] == LEAVE:
            self._left.pop(0)
            raise KeyboardInterrupt
        return self._left.pop(0)

    @property
    def shown(self) -> str:
        assert isinstance(self._console.file, io.StringIO)
        return self._console.file.getvalue()

    def ask(self, question: str) -> int:
        with ApiClient(self._base_url) as client:
            return Chat(client, self._console, self._read_line, self._prompts, agent="asker").ask(question)

    def converse(self) -> int:
        with ApiClient(self._base_url) as client:
            return Chat(client, self._console, self._read_line, self._prompts, agent="asker").converse()

    def open_inbox(self) -> None:
        with ApiClient(self._base_url) as client:
            Inbox(client, self._console, self._prompts).serve()


@pytest.fixture(autouse=True)
def _empty_inbox(api: httpx.Client) -> None:
    for asked in api.get("/interactions").json()["data"]:
        api.post(f"/runs/{(asked['top'] or asked)['run_id']}/cancel")


def begin(api: httpx.Client, text: str, agent: str = "asker") -> dict[str, Any]:
    """How a run stands that waits."""
    body = {"model": agent, "messages": [{"role": "user", "content": text}]}
    standing: dict[str, Any] = api.post("/chat/completions", json=body).json()["stepagent"]
    assert standing["status"] == "waiting"
    return standing


def results(model: ScriptedModel) -> list[str]:
    """What the model last read of its calls."""
    return [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]


def test_inbox_tells_the_end_of_the_run_that_its_answers_let_go_on(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("in the inbox", Reply(calls=(CHOOSE, FILL_IN)), Reply(text="Both noted."))
    begin(api, "in the inbox")
    first = api.get("/interactions").json()["data"][0]["type"]  # either may be asked first
    person = Person(api, "1", *(("red", "1", *FORM) if first == "choice" else (*FORM, "1", "red")))
    person.open_inbox()
    assert "The run waits for 1 more answer." in person.shown
    assert "Your email address does not match" in person.shown
    assert person.shown.endswith("The run ended with:\nBoth noted.\nNothing waits for an answer.\n")
    chosen, filled_in = results(model)
    assert (chosen, json.loads(filled_in)["name"]) == ("Red", "Ada")


def test_inbox_approves_a_call_of_an_agent_below(api: httpx.Client, model: ScriptedModel, probed: Path) -> None:
    model.script_for("send below", Reply(calls=(SEND,)), Reply(text="Sent."))
    model.script_for("have it sent", Reply(calls=(("consult", {"task": "send below"}),)), Reply(text="All done."))
    begin(api, "have it sent", "manager")
    person = Person(api, "1", "approve")
    person.open_inbox()
    assert "asker / guarded" in person.shown
    assert '"number": 1   (set by the agent\'s author)' in person.shown
    assert ("The run ended with:\nAll done." in person.shown, probed.read_text()) == (True, "echo sent\n")


def test_inbox_says_so_when_somebody_else_was_quicker(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("be quick", Reply(calls=(CHOOSE,)), Reply(text="Blue."))
    standing = begin(api, "be quick")
    question = standing["interactions"][0]["interaction_id"]

    class Slow(Person):
        def _read_line(self, prompt: str) -> str:
            if len(self._left) == 1:
                api.post(f"/interactions/{question}", json={"answer": "Deep blue"})
            return super()._read_line(prompt)

    person = Slow(api, "1", "red")
    person.open_inbox()
    assert "Somebody else has answered this question meanwhile, otherwise than you." in person.shown


def test_chat_asks_all_questions_of_a_turn_and_follows_the_run_on(
    api: httpx.Client, model: ScriptedModel, probed: Path
) -> None:
    both = Reply(text="Let me see.", calls=(CHOOSE, ("ask_user", {"question": "Name?"})))
    model.script_for("ask me", both, Reply(calls=(SEND,)), Reply(text="Thank you."))
    answers = {"Which colour?": "1", "Name?": "Ada", "May guarded run?": "approve"}

    class Reading(Person):
        def _read_line(self, prompt: str) -> str:
            return answers[max(answers, key=self.shown.rfind)]

    person = Reading(api)
    assert person.ask("ask me") == COMPLETED
    assert (results(model), probed.read_text()) == (["Deep blue", "Ada", "sent"], "echo sent\n")
    assert ("2 of 2 questions:" in person.shown, person.shown.count("Let me see.")) == (True, 1)
    assert [person.shown.count(question) for question in answers] == [1, 1, 1]


def test_chat_shows_the_rest_when_the_inbox_answered_what_it_left_open(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("leave it", Reply(calls=(CHOOSE,)), Reply(text="So it is red."))
    elsewhere = Person(api, "1", "red")

    class Absent(Person):
        def _read_line(self, prompt: str) -> str:
            if self._left == ["/answer"]:
                elsewhere.open_inbox()
            return super()._read_line(prompt)

    person = Absent(api, "leave it", LEAVE, "and now?", "/answer")
    assert person.converse() == COMPLETED
    assert "Left open; the run waits." in person.shown
    assert "The agent still waits for an answer: /answer gives it" in person.shown
    assert "So it is red." in person.shown
    assert results(model) == ["Red"]


def test_question_stays_open_when_the_person_leaves_it(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("leave all", Reply(calls=(CHOOSE,)), Reply(text="never said"))
    assert Person(api, LEAVE).ask("leave all") == NOT_ANSWERED
    assert [asked["description"] for asked in api.get("/interactions").json()["data"]] == ["Which colour?"]


def test_run_is_cancelled_when_the_person_interrupts_it(api: httpx.Client, model: ScriptedModel) -> None:
    model.script_for("take your time", Reply(text="word " * 400, chunk_chars=5, delay_s_per_chunk=0.05))
    person = Person(api)
    main = threading.main_thread().ident
    assert main

    def interrupt() -> None:
        deadline = time.monotonic() + 15
        while "word" not in person.shown and time.monotonic() < deadline:
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert person.ask("take your time") == CANCELLED
    run_id = person.shown.split()[-1]
    assert api.get(f"/runs/{run_id}").json()["status"] == "cancelled"
    assert "Cancelling the run." in person.shown
