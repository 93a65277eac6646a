"""The command line on a stack of its own: what a newcomer sees, how it exits, and that it leaves nothing behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from local import door_process, emulator, stack
from tests.local_loop import ROOT
from tests.scripted_model import Fault, Reply, ScriptedModel

ASK_NAME = Reply(calls=(("ask_user", {"question": "What is your name?"}),))


def environment(home: Path, model: ScriptedModel) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "STEPAGENT_HOME": str(home),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": model.base_url,
        "STEPAGENT_MODEL": "scripted",
    }


def run(home: Path, model: ScriptedModel, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """The command line as a process; `given` is its standard input."""
    return subprocess.run(
        [sys.executable, "-m", "local.cli", *words],
        check=False,
        cwd=ROOT,
        env=environment(home, model),
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def home(endless_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state folder of a stack that `up` left running."""
    folder = tmp_path_factory.mktemp("home")
    up = run(folder, endless_model, "up")
    assert up.returncode == 0, up.stderr
    yield folder
    stack.down(folder)


def test_chat_prints_the_answer_when_the_run_completes(home: Path, model: ScriptedModel) -> None:
    model.script(Reply(calls=(("calculator", {"expression": "17*23"}),)), Reply(text="It is 391."))
    chat = run(home, model, "chat", "What is 17*23?")
    assert (chat.returncode, chat.stderr) == (0, "")
    said = chat.stdout.splitlines()
    assert said[:5] == ["turn 1", '-> calculator(expression="17*23")', "<- calculator: 391", "turn 2", "It is 391."]
    assert said[5].startswith("2 turns · 1 tool call · 20 + 10 tokens · ")


def test_chat_exits_1_with_the_reason_when_the_run_fails(home: Path, model: ScriptedModel) -> None:
    model.script(Fault(400, body={"error": {"message": "no such model"}}))
    chat = run(home, model, "chat", "Hello")
    assert chat.returncode == 1
    assert "no such model" in chat.stdout


def test_chat_takes_answers_from_its_input_when_the_agent_asks(home: Path, model: ScriptedModel) -> None:
    model.script(ASK_NAME, Reply(text="Hello Ada."))
    chat = run(home, model, "chat", "Greet me", given="Ada\n")
    assert chat.returncode == 0
    assert "What is your name?" in chat.stdout
    assert "Hello Ada." in chat.stdout
    assert model.requests[-1]["messages"][-1]["content"] == "Ada"


def test_chat_asks_each_question_when_several_are_open(home: Path, model: ScriptedModel) -> None:
    both = Reply(calls=(("ask_user", {"question": "Name?"}), ("ask_user", {"question": "Town?"})))
    model.script(both, Reply(text="Noted."))
    chat = run(home, model, "chat", "Greet me", given="one\ntwo\n")
    assert chat.returncode == 0
    assert sorted(message["content"] for message in model.requests[-1]["messages"][-2:]) == ["one", "two"]


def test_chat_exits_3_when_nobody_answers(home: Path, model: ScriptedModel) -> None:
    model.script(ASK_NAME)
    chat = run(home, model, "chat", "Greet me")
    assert chat.returncode == 3
    assert "standard input has no answer" in chat.stderr


def test_chat_keeps_the_session_when_lines_are_piped(home: Path, model: ScriptedModel) -> None:
    model.script(Reply(text="First."), Reply(text="Second."))
    chat = run(home, model, "chat", given="one\ntwo\n")
    assert chat.returncode == 0
    roles = [message["role"] for message in model.requests[-1]["messages"] if message["role"] != "system"]
    assert roles == ["user", "assistant", "user"]


def test_batch_writes_what_came_of_a_file_beside_it(home: Path, model: ScriptedModel, tmp_path: Path) -> None:
    model.default = Reply(text="Done.")
    file = tmp_path / "questions.csv"
    file.write_text("id,input\na,one\nb,\nc,three\n")
    batch = run(home, model, "batch", "run", str(file))
    assert batch.returncode == 1, batch.stderr  # one input is blank
    found = [json.loads(line) for line in (tmp_path / "questions.results.jsonl").read_text().splitlines()]
    assert [(each["input_id"], each["answer"]) for each in found] == [("a", "Done."), ("c", "Done.")]
    [failed] = (tmp_path / "questions.failures.jsonl").read_text().splitlines()
    assert json.loads(failed)["input_id"] == "b"
    asked = len(model.requests)
    assert run(home, model, "batch", "run", str(file)).stdout == batch.stdout
    assert len(model.requests) == asked


def test_up_changes_nothing_when_the_stack_is_up(home: Path, model: ScriptedModel) -> None:
    before = stack.find(home)
    again = run(home, model, "up")
    assert again.stdout.startswith("Already up.")
    assert stack.find(home) == before


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", "/v1/nothing", {}, 404, "not_found"),
        ("DELETE", "/v1/models", {}, 404, "not_found"),
        ("GET", "/v1/models", {"Origin": "https://example.com"}, 403, "forbidden"),
        ("GET", "/v1/models", {"Host": "example.com"}, 403, "forbidden"),
        ("POST", "/v1/chat/completions", {}, 400, "invalid_request"),
        ("GET", "/v1/../../../_ministack/health", {}, 404, "not_found"),
        ("GET", "/v1/runs/%2e%2e/%2e%2e/x", {}, 404, "not_found"),
    ],
)
def test_front_door_refuses_in_the_shape_of_openai(
    home: Path, method: str, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    running = stack.find(home)
    assert running
    answer = httpx.request(method, f"http://127.0.0.1:{running.port}{path}", headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_caller_is_local_when_it_claims_to_be_somebody_else(home: Path, model: ScriptedModel) -> None:
    model.script(Reply(text="Hello."))
    running = stack.find(home)
    assert running
    base = f"http://127.0.0.1:{running.port}/v1"
    claim = {"x-amzn-request-context": '{"authorizer": {"principalId": "somebody"}}'}
    body = {"model": "assistant", "messages": [{"role": "user", "content": "Hi"}]}
    said = httpx.post(f"{base}/chat/completions", json=body, headers=claim, trust_env=False, timeout=30).json()
    # Had the claim been believed, the run would be somebody's, and not to be found here.
    assert httpx.get(f"{base}/runs/{said['stepagent']['run_id']}", trust_env=False).status_code == 200


def test_chat_leaves_no_process_behind_when_it_is_killed(tmp_path: Path, model: ScriptedModel) -> None:
    model.script(Reply(text="Too late.", first_delay_s=30))
    command = [sys.executable, "-m", "local.cli", "chat", "Hello"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(tmp_path, model), stderr=subprocess.DEVNULL) as chat:
        _wait_until(lambda: bool(model.requests))
        running, aws = stack.find(tmp_path), emulator.find(tmp_path / "aws")
        chat.kill()
    assert running
    assert aws
    _wait_until(lambda: not _exists(running.pid) and not _exists(aws.pid))
    assert door_process.find(tmp_path) is None


def test_down_leaves_no_process_behind(tmp_path: Path, model: ScriptedModel) -> None:
    assert run(tmp_path, model, "up").returncode == 0
    running, aws = stack.find(tmp_path), emulator.find(tmp_path / "aws")
    assert running
    assert aws
    assert run(tmp_path, model, "down").stdout == "Stopped.\n"
    _wait_until(
        lambda: not _exists(running.pid) and not _exists(aws.pid)
    )  # both have let go; the kernel needs a moment


def _exists(pid: int) -> bool:
    """Whether it still runs; one that nobody has collected yet does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


def _wait_until(holds: Callable[[], bool], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
