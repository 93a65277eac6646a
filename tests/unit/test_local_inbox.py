"""The inbox: what waits, and what became of the run that an answer let go on."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from local.api_client import ApiClient
from local.inbox import Inbox, in_short, tell_outcome, wait_for_rest
from local.prompts import LinePrompts, NobodyAnswers


def question(number: int, **more: Any) -> dict[str, Any]:
    asked = {"interaction_id": f"i{number}", "run_id": f"run_{number}", "top": None, "tool": "ask_user", "type": "text"}
    moment = datetime.now(UTC)
    times = {
        "created_at": (moment - timedelta(minutes=5)).isoformat(),
        "expires_at": (moment + timedelta(days=2)).isoformat(),
    }
    return {**asked, **times, "status": "pending", "description": f"Question {number}?", **more}


class Waiting(ApiClient):
    """An API in which these questions wait; each run ends as soon as it goes on."""

    def __init__(self, *waiting: dict[str, Any]) -> None:
        self.waiting = {asked["interaction_id"]: asked for asked in waiting}
        self.answers: list[tuple[str, Any]] = []
        self.runs_read: list[str] = []

    def list_pending(self) -> list[dict[str, Any]]:
        return list(self.waiting.values())

    def read_interaction(self, interaction_id: str) -> dict[str, Any]:
        return self.waiting[interaction_id]

    def answer(self, interaction_id: str, answer: str | dict[str, Any]) -> None:
        self.answers.append((interaction_id, answer))
        del self.waiting[interaction_id]

    def read_run(self, run_id: str) -> dict[str, Any]:
        self.runs_read.append(run_id)
        return {"run_id": run_id, "agent": "helper", "status": "completed", "answer": f"End of {run_id}."}


def lines(console: Console, *given: str) -> LinePrompts:
    left = list(given)

    def read_line(prompt: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return LinePrompts(console, read_line)


def serve(api: Waiting, *given: str) -> str:
    """All that is shown."""
    console = Console(file=io.StringIO(), width=150)
    Inbox(api, console, lines(console, *given)).serve()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_inbox_says_so_when_nothing_waits() -> None:
    assert serve(Waiting()) == "Nothing waits for an answer.\n"


def test_question_is_listed_with_its_age_and_what_asks_it() -> None:
    shown = serve(Waiting(question(1, description="Which\ncolour\x1b?")))
    words = next(line for line in shown.splitlines() if "colour" in line).split()
    assert " ".join(words) == "1 5 min ago in 1 d helper / ask_user text Which colour?"


def test_chosen_question_is_answered_and_the_end_of_its_run_told() -> None:
    api = Waiting(question(1), question(2))
    shown = serve(api, "2", "blue")
    assert api.answers == [("i2", "blue")]
    assert "The run ended with:\nEnd of run_2.\n" in shown
    assert "Question 1?" in shown[shown.index("End of run_2.") :]


def test_run_at_the_top_is_told_when_an_agent_below_asked() -> None:
    shown = serve(Waiting(question(1, top={"run_id": "run_top", "call_id": "c"})), "1", "blue")
    assert "End of run_top." in shown


def test_run_is_waited_for_while_it_has_yet_to_take_its_answer() -> None:
    class TakesItLater(Waiting):
        def read_run(self, run_id: str) -> dict[str, Any]:
            run = super().read_run(run_id)
            taken = self.runs_read.count(run_id) > 1
            return run if taken else {**run, "status": "waiting", "interactions": ["i1"]}

    api = TakesItLater()
    run = wait_for_rest(api, "run_1", "i1", sleep=lambda _: None)
    assert (run["status"], len(api.runs_read)) == ("completed", 2)


def test_run_is_not_waited_for_when_it_waits_for_another_answer() -> None:
    class AsksAgain(Waiting):
        def read_run(self, run_id: str) -> dict[str, Any]:
            return {**super().read_run(run_id), "status": "waiting", "interactions": ["i2"]}

    api = AsksAgain()
    assert wait_for_rest(api, "run_1", "i1", sleep=lambda _: None)["interactions"] == ["i2"]
    assert len(api.runs_read) == 1


@pytest.mark.parametrize("number", ["0", "2", "x", "²"])
def test_number_is_asked_for_again_when_there_is_no_such_question(number: str) -> None:
    api = Waiting(question(1))
    shown = serve(api, number, "1", "blue")
    assert (f"There is no question {number}; they are numbered 1 to 1." in shown, len(api.answers)) == (True, 1)


def test_nothing_is_answered_when_the_person_leaves() -> None:
    api = Waiting(question(1))
    serve(api, "")
    assert api.answers == []


def test_question_stays_when_it_is_left_open() -> None:
    class Leaving(LinePrompts):
        def line(self, label: str, default: str = "") -> str:
            if label == "your answer":
                raise KeyboardInterrupt
            return super().line(label, default)

    api, console, left = Waiting(question(1)), Console(file=io.StringIO(), width=150), ["1"]
    Inbox(api, console, Leaving(console, lambda prompt: left.pop(0) if left else "")).serve()
    assert (api.answers, list(api.waiting)) == ([], ["i1"])


def test_input_that_ends_in_a_question_is_an_error() -> None:
    with pytest.raises(NobodyAnswers):
        serve(Waiting(question(1)), "1")


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({"status": "completed", "answer": "Yes [b]."}, "The run ended with:\nYes [b].\n"),
        ({"status": "failed", "failure": {"message": "No key."}}, "The run failed: No key.\n"),
        ({"status": "failed", "failure": None}, "The run failed: no reason is known\n"),
        ({"status": "cancelled"}, "The run was cancelled meanwhile.\n"),
        ({"status": "waiting", "interactions": ["a"]}, "The run waits for 1 more answer.\n"),
        ({"status": "waiting", "interactions": ["a", "b"]}, "The run waits for 2 more answers.\n"),
        ({"status": "running", "run_id": "run_1"}, "The run goes on: run_1.\n"),
    ],
)
def test_what_became_of_a_run_is_told_in_a_sentence(run: dict[str, Any], told: str) -> None:
    console = Console(file=io.StringIO(), width=150)
    tell_outcome(lines(console), run)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == told


def test_run_is_left_to_itself_when_it_works_longer_than_the_patience() -> None:
    class Working(Waiting):
        def read_run(self, run_id: str) -> dict[str, Any]:
            return {**super().read_run(run_id), "status": "running"}

    api, slept = Working(), list[float]()
    assert wait_for_rest(api, "run_1", sleep=slept.append, patience_s=1)["status"] == "running"
    assert len(api.runs_read) == len(slept) + 1 == 5


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (7200, "2 h"), (86_399, "23 h"), (172_800, "2 d")],
)
def test_span_is_told_in_its_largest_unit(seconds: float, told: str) -> None:
    assert in_short(timedelta(seconds=seconds)) == told
