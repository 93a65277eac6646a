"""A message's run as it is shown: each event once, questions left to the prompts, and ended by Ctrl-C."""

import os
import pty
import select
import signal
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from local.api_client import ApiClient, ApiError, Event, Said
from local.plan_news import StepNews
from local.run_on_screen import RunOnScreen, without_question_texts
from local.terminal import unechoed
from local.view import Closing
from stepagent.planning.plan import Plan
from stepagent.planning.words import told_plan
from tests.plans import a_plan

SAID = Said("Hi", "s", "key")
TURN = Event("flowNodeStatus", {"name": "turn 1"})
CALL = Event("toolCall", {"tool": {"id": "c1", "toolName": "ask_user"}})
RESULT = Event("toolResponse", {"tool": {"id": "c1", "response": "blue", "isError": False}})
ASKED = Event("interactive", {"interactive": {"id": "i1"}})
REST = Event("flowResponses", {})
OPEN = {"interaction_id": "i1", "call_id": "c1", "tool": "ask_user", "type": "text"}


def text(content: str) -> Event:
    return Event("answer", {"choices": [{"delta": {"content": content}}]})


def standing(status: str, *questions: dict[str, Any]) -> Event:
    told = {"run_id": "run_1", "status": status, "turns": 1, "interactions": list(questions)}
    return Event("answer", {"choices": [], "stepagent": told})


BEGUN = standing("running")
CANCELLED = Event("error", {"error": {"message": "Cancelled.", "code": "cancelled"}, **standing("cancelled").data})
STILL_RUNS = Event("error", {"error": {"message": "…", "code": "run_still_going_on"}, **standing("running").data})


class Replaying(ApiClient):
    """An API that tells all of a run each time, a list of events for each time it is asked."""

    def __init__(self, *times: list[Event]) -> None:
        self._times = list(times)
        self.cancelled: list[str] = []
        self.ended = threading.Event()

    def say(self, said: Said) -> Iterator[Event]:
        for event in self._times.pop(0):
            if event is CANCELLED:
                signal.raise_signal(signal.SIGINT)
                assert self.ended.wait(5), "nobody cancelled the run"
            yield event

    def cancel(self, run_id: str) -> dict[str, Any]:
        self.cancelled.append(run_id)
        self.ended.set()
        return {}


class Told:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.ends: list[Closing | None] = []

    def begin(self) -> None:
        self.told.append("begin")

    def turn(self, name: str) -> None:
        self.told.append(name)

    def reasoning(self, text: str) -> None:
        self.told.append(f"thought {text}")

    def text(self, text: str) -> None:
        self.told.append(text)

    def called(self, call_id: str, tool: str, arguments: str) -> None:
        self.told.append(f"called {tool}")

    def returned(self, call_id: str, tool: str, result: str, *, is_error: bool) -> None:
        self.told.append(f"returned {tool}")

    def plan(self, plan: Plan, change: str | None) -> None:
        self.told.append(f"plan of {len(plan.steps)}, {change}")

    def step(self, news: StepNews) -> None:
        self.told.append(f"{news.step_id} {news.status} {news.text}".strip())

    def note(self, text: str) -> None:
        self.told.append(text)

    def end(self, closing: Closing | None) -> None:
        self.ends.append(closing)


def test_each_event_is_shown_once_when_the_run_goes_on_behind_a_question() -> None:
    before = [BEGUN, TURN, text("Let me ask."), CALL, text("Which?"), ASKED]
    api = Replaying(
        [*before, REST, standing("waiting", OPEN)], [*before, RESULT, TURN, text("Blue."), REST, standing("completed")]
    )
    view = Told()
    run = RunOnScreen(api, view, SAID)
    assert [each["interaction_id"] for each in run.follow().questions] == ["i1"]
    closing = run.follow()
    # The result of the question is what the person just typed.
    assert view.told == ["begin", "turn 1", "Let me ask.", "begin", "turn 1", "Blue."]
    assert (closing.status, closing.calls, closing.questions) == ("completed", 1, [])


def test_plan_and_its_steps_are_shown_and_each_step_counted_once() -> None:
    plan = told_plan(a_plan("a", "b"))
    began = {"id": "a", "title": "Title a", "attempt": 1, "run_id": "run_2", "call_id": "c"}
    failed, done = (
        Event("step.completed", {"id": "a", "title": "Title a", "status": status, "text": status, "call_id": "c"})
        for status in ("pending", "done")
    )
    events = [
        Event("strategy.chosen", {"strategy": "plan", "why": "Parts."}),
        Event("plan.created", {"plan": plan}),
        Event("step.started", began),
        failed,
        Event("step.started", began | {"attempt": 2}),
        done,
        Event("plan.updated", {"plan": plan, "why": "No b."}),
    ]
    view = Told()
    closing = RunOnScreen(Replaying([BEGUN, *events, REST, standing("completed")]), view, SAID).follow()
    assert view.told == [
        "begin",
        "works by a plan: Parts.",
        "plan of 2, None",
        "a in_progress",
        "a pending pending",
        "a in_progress",
        "a done done",
        "plan of 2, No b.",
    ]
    assert closing.steps == 1


def test_run_is_followed_on_when_its_stream_ends_before_it_does() -> None:
    api = Replaying([BEGUN, TURN, REST, STILL_RUNS], [BEGUN, TURN, text("Done."), REST, standing("completed")])
    view = Told()
    closing = RunOnScreen(api, view, SAID).follow()
    assert (closing.status, closing.failure, view.told) == ("completed", "", ["begin", "turn 1", "Done."])


def test_following_ends_when_the_server_reports_a_failure_of_its_own() -> None:
    broken = Event("error", {"error": {"message": "The run failed.", "code": "internal_error"}})
    assert RunOnScreen(Replaying([BEGUN, broken]), Told(), SAID).follow().failure == "The run failed."


def test_run_is_cancelled_once_and_followed_to_its_end_on_ctrl_c() -> None:
    api, view = Replaying([BEGUN, TURN, CANCELLED]), Told()
    closing = RunOnScreen(api, view, SAID).follow()
    assert (api.cancelled, closing.status, closing.failure) == (["run_1"], "cancelled", "Cancelled.")
    assert "Cancelling the run. Ctrl-C again leaves at once, whatever becomes of it." in view.told


def test_second_ctrl_c_leaves_at_once() -> None:
    class Deaf(Replaying):
        def cancel(self, run_id: str) -> dict[str, Any]:
            main = threading.main_thread().ident
            assert main
            signal.pthread_kill(main, signal.SIGINT)  # the person's second one, while the first is at work
            return {}

    view = Told()
    with pytest.raises(KeyboardInterrupt):
        RunOnScreen(Deaf([BEGUN, CANCELLED]), view, SAID).follow()
    assert view.ends == [None]


def test_interrupts_are_as_before_when_the_run_rests() -> None:
    before = signal.getsignal(signal.SIGINT)
    RunOnScreen(Replaying([BEGUN, REST, standing("completed")]), Told(), SAID).follow()
    assert signal.getsignal(signal.SIGINT) is before


def test_view_is_ended_when_the_connection_breaks_off() -> None:
    class Broken(Replaying):
        def say(self, said: Said) -> Iterator[Event]:
            raise ApiError("It broke off.", "unreachable")

    view = Told()
    with pytest.raises(ApiError):
        RunOnScreen(Broken(), view, SAID).follow()
    assert view.ends == [None]


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([text("a"), text("b"), ASKED, text("c")], [0, 2, 3]),
        ([text("a"), CALL, ASKED], [0, 1, 2]),
        ([text("a")], [0]),
        ([], []),
    ],
)
def test_text_is_left_out_when_it_puts_a_question_in_words(events: list[Event], kept: list[int]) -> None:
    assert list(without_question_texts(events)) == [events[index] for index in kept]


def test_typing_is_neither_shown_nor_kept_while_a_run_works(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal, closefd=False) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with unechoed():
            assert not termios.tcgetattr(terminal)[3] & termios.ECHO
            os.write(keyboard, b"typed\n")
            assert select.select([terminal], [], [], 5)[0]
        assert termios.tcgetattr(terminal)[3] & termios.ECHO
        os.set_blocking(terminal, False)
        with pytest.raises(BlockingIOError):
            os.read(terminal, 10)
    os.close(keyboard)
    os.close(terminal)
