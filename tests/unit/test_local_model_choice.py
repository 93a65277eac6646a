"""Which model the environment names, and that whoever starts a stack is told which one it is."""

import pytest
from typer.testing import CliRunner

from local import stack
from local.chat import Chat
from local.cli import app
from local.door_process import Running
from local.model_choice import EMBEDDED_MODEL, BaseUrlWrong, ModelNotNamed, choose
from local.stack import Handle

OLLAMA = "http://localhost:11434/v1"


@pytest.mark.parametrize(
    ("environment", "name", "base_url"),
    [
        ({}, EMBEDDED_MODEL, ""),
        ({"OPENAI_API_KEY": "sk-a"}, "gpt-4.1-mini", "https://api.openai.com/v1"),
        ({"OPENAI_API_KEY": "sk-a", "STEPAGENT_MODEL": "m", "OPENAI_BASE_URL": f"{OLLAMA}/"}, "m", OLLAMA),
        ({"OPENAI_BASE_URL": OLLAMA, "STEPAGENT_MODEL": "qwen3:8b"}, "qwen3:8b", OLLAMA),
    ],
)
def test_model_is_the_one_that_the_environment_names(environment: dict[str, str], name: str, base_url: str) -> None:
    choice = choose(environment)
    assert (choice.name, choice.base_url) == (name, base_url)


def test_model_is_asked_for_when_only_its_server_is_named() -> None:
    with pytest.raises(ModelNotNamed, match="STEPAGENT_MODEL=qwen3:8b make chat"):
        choose({"OPENAI_BASE_URL": OLLAMA})


@pytest.mark.parametrize("key", ["", "sk-a"])
@pytest.mark.parametrize("base_url", ["localhost:11434/v1", "ftp://localhost/v1"])
def test_server_is_refused_when_it_is_no_url(base_url: str, key: str) -> None:
    with pytest.raises(BaseUrlWrong, match="such as http://localhost:11434/v1"):
        choose({"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": key, "STEPAGENT_MODEL": "m"})


@pytest.mark.parametrize(("fresh", "told"), [(True, True), (False, False)])
def test_chat_tells_the_model_and_its_server_when_it_starts_the_stack(
    monkeypatch: pytest.MonkeyPatch, fresh: bool, told: bool
) -> None:
    running = Running(pid=1, port=1, fingerprint="", model="m", model_port=0, model_pid=0, tied=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", OLLAMA)
    monkeypatch.setenv("STEPAGENT_MODEL", "qwen3:8b")
    monkeypatch.setattr(stack, "up", lambda *_, **__: Handle(running, fresh=fresh))
    monkeypatch.setattr(Chat, "ask", lambda chat, question: 0)
    done = CliRunner().invoke(app, ["chat", "Hi"])
    assert (f"Model: qwen3:8b at {OLLAMA}\n" in done.stderr, "sk-secret" in done.output) == (told, False)
