"""A run once more, and the commands that show runs: what reaches the view and when, and errors that say what to do."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from local import connection, stack
from local.api_client import ApiClient, ApiError, RunEvent
from local.cli import app
from local.connection import NotConnected, connect
from local.door_process import Running
from local.live_view import LiveView
from local.replay import LONGEST_PAUSE_S, Replay, ReplayClock
from local.view import PlainView
from tests.recorded_run import A_QUESTION, RUN_ID, TWO_CALLS, a_view


class Time:
    """Passes only while somebody sleeps. Stands for the functions of `time`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


def played(events: list[RunEvent], speed: float, time: Time, **run: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    Replay(PlainView(console), ReplayClock(speed, time.sleep, time.monotonic)).play(a_view(**run), events)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_replay_shows_what_the_chat_showed() -> None:
    assert played(TWO_CALLS, 1, Time()) == [
        "turn 1",
        "I compute.",
        '-> search(q="a")',
        "-> search()",
        "<- search: found",
        "!! search: broke",
        "turn 2",
        "Done.",
        "2 turns · 2 tool calls · 2400 + 80 tokens · 4.0 s · run_abc_1",
    ]


@pytest.mark.parametrize(("speed", "seconds"), [(1, 4), (2, 2), (0.5, 8)])
def test_replay_takes_as_long_as_the_run_did_by_its_speed(speed: float, seconds: float) -> None:
    time = Time()
    played(TWO_CALLS, speed, time)
    assert sum(time.slept) == pytest.approx(seconds)


def test_replay_waits_for_nothing_when_it_shall_not() -> None:
    time = Time()
    played(TWO_CALLS, 0, time)
    assert sum(time.slept) == 0


def test_hours_of_a_person_are_left_out_and_that_is_said() -> None:
    time = Time()
    lines = played(A_QUESTION, 1, time)
    assert sum(time.slept) < 3 * LONGEST_PAUSE_S
    assert lines[1:5] == ["asks: Which colour?", "(59 min 57 s left out)", "answered.", "<- ask_user: blue"]


def test_times_on_the_screen_are_those_of_the_run_whatever_the_speed() -> None:
    time = Time()
    console = Console(file=io.StringIO(), width=100, color_system=None, force_terminal=False)
    clock = ReplayClock(100, time.sleep, time.monotonic)
    Replay(LiveView(console, clock), clock).play(a_view(), TWO_CALLS)
    assert isinstance(console.file, io.StringIO)
    assert "✓ search · 1.0 s: found" in console.file.getvalue()
    assert "✗ search · 2.0 s: broke" in console.file.getvalue()


def test_failure_is_said_at_the_end() -> None:
    lines = played(TWO_CALLS, 0, Time(), status="failed", failure={"code": "x", "message": "It broke."})
    assert lines[-2] == "failed: It broke."


def test_replay_shows_steps_of_a_plan_and_what_changed_it() -> None:
    plan = {"revision": 1, "steps": [{"id": "1", "title": "Look"}, {"id": "2", "title": "Tell"}]}
    at = TWO_CALLS[0].at
    events = [
        RunEvent(1, "plan.created", at, {"plan": plan}),
        RunEvent(2, "step.started", at, {"id": "1", "title": "Look", "attempt": 1, "call_id": "c", "run_id": "r"}),
        RunEvent(
            3, "step.completed", at, {"id": "1", "title": "Look", "status": "done", "text": "Seen.", "call_id": "c"}
        ),
        RunEvent(4, "plan.updated", at, {"plan": plan, "why": "Why not."}),
    ]
    assert played(events, 0, Time())[:6] == [
        "plan:",
        "   1. Look [pending]",
        "   2. Tell [pending]",
        "-> step 1 (Look)",
        "<- step 1 (Look): Seen.",
        "plan changed: Why not.",
    ]


# ---- the commands


class Api(ApiClient):
    """Stands for the API: one run with these events."""

    events: list[RunEvent] = TWO_CALLS
    gone = False

    def __init__(self, base_url: str = "http://127.0.0.1:1", key: str = "") -> None:
        super().__init__(base_url, key)

    def read_run(self, run_id: str) -> dict[str, Any]:
        if run_id != RUN_ID:
            raise ApiError("There is no run.", "not_found")
        return a_view()

    def list_runs(self, status: str = "", session_id: str = "", limit: int = 20) -> list[dict[str, Any]]:
        return [] if status == "failed" else [a_view()]

    def run_events(self, run_id: str, *, quiet_s: float) -> Iterator[RunEvent]:
        if self.gone:
            raise ApiError("They are kept no longer.", "events_expired")
        return iter(self.events)


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line; gives its exit code, and all that it wrote."""
    monkeypatch.setattr(connection, "connect", lambda stack: Api())

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(words))
        return done.exit_code, done.output

    return run


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["runs"], "run_abc_1"),
        (["runs", "--status", "failed"], "There is no run that is failed."),
        (["show", RUN_ID], "2 turns · 2 calls"),
        (["replay", RUN_ID, "--no-wait"], "nothing is run again"),
    ],
)
def test_command_shows_what_there_is(command: Command, words: list[str], shown: str) -> None:
    code, output = command(*words)
    assert (code, shown in output) == (0, True)


@pytest.mark.parametrize("name", ["show", "replay"])
@pytest.mark.parametrize("run_id", ["run_nope_1", "../models", "run_../x"])
def test_command_says_how_to_find_a_run_when_there_is_no_such_one(command: Command, name: str, run_id: str) -> None:
    code, output = command(name, run_id)
    assert (code, f"There is no run {run_id!r} that you may see. `make runs` lists" in output) == (1, True)


@pytest.mark.parametrize("name", ["show", "replay"])
def test_command_asks_which_run_when_none_is_named(command: Command, name: str) -> None:
    code, output = command(name, "")
    assert (code, "Say which run: RUN=run_…" in output) == (1, True)


@pytest.mark.parametrize(
    ("name", "code", "says"), [("show", 0, "kept no longer"), ("replay", 1, "`make show RUN=run_abc_1`")]
)
def test_command_says_so_when_the_events_have_expired(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str, code: int, says: str
) -> None:
    monkeypatch.setattr(Api, "gone", True)
    ended, output = command(name, RUN_ID)
    assert (ended, says in output) == (code, True)


def test_nothing_is_asked_when_no_stack_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "find", lambda home: None)
    with pytest.raises(NotConnected, match="`make up` starts the local stack"):
        connect("")


def test_local_stack_is_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(1, 8090, "f", "m", 0, 0, tied=False)
    monkeypatch.setattr(stack, "find", lambda home: running)
    with connect("") as client:
        assert isinstance(client, ApiClient)


def test_deployed_stack_is_not_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPAGENT_API_KEY", raising=False)
    with pytest.raises(NotConnected, match="make api-key NAME=me STACK=prod"):
        connect("prod")


def test_deployed_stack_is_asked_at_its_address_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPAGENT_API_KEY", "k")
    monkeypatch.setattr(connection, "_base_url", lambda name: f"https://{name}.example.com/v1")
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(connection, "ApiClient", lambda base_url, key: asked.append((base_url, key)))
    connect("prod")
    assert asked == [("https://prod.example.com/v1", "k")]
