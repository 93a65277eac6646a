"""The examples of docs/api.md, each run as it stands there against the real loop."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.functions import ROOT
from tests.integration.runs import until
from tests.integration.test_runs_api import start, wait_for
from tests.scripted_model import Reply, ScriptedModel
from tests.sdk import node_modules, run_node

DOCUMENT = (ROOT / "docs" / "api.md").read_text()
BASE_URL = "http://127.0.0.1:8090/v1"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_CURL = re.compile(r"(curl .*?) +# (\d{3})\b")


class Example(NamedTuple):
    """A line of curl and the status that the document states."""

    command: str
    status: str


def blocks(language: str) -> list[str]:
    return [content for found, content in _BLOCK.findall(DOCUMENT) if found == language]


def test_curl_examples_are_answered_with_the_stated_status(
    api: httpx.Client, model: ScriptedModel, tmp_path: Path
) -> None:
    environment = {**os.environ, **begin_what_they_speak_of(api, model)}
    examples = [Example(*found) for block in blocks("bash") for found in _CURL.findall(block)]
    assert len(examples) == DOCUMENT.count("\ncurl ")
    found = [Example(example.command, status_of(example.command, environment, tmp_path)) for example in examples]
    assert found == examples


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_example_prints_the_answer(api: httpx.Client, model: ScriptedModel, number: int) -> None:
    model.default = Reply(text="It is 391.")
    code = blocks("python")[number].replace(BASE_URL, str(api.base_url))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "It is 391." in done.stdout, done.stderr


@pytest.mark.skipif(node_modules("openai") is None, reason="there is no openai for node: make test installs it")
@pytest.mark.parametrize("number", range(len(blocks("javascript"))))
def test_node_example_prints_the_answer(api: httpx.Client, model: ScriptedModel, number: int) -> None:
    model.default = Reply(text="It is 391.")
    code = blocks("javascript")[number].replace(BASE_URL, str(api.base_url))
    assert "It is 391." in run_node(code)


def begin_what_they_speak_of(api: httpx.Client, model: ScriptedModel) -> dict[str, str]:
    """A run that has ended, in the session `demo`, and a question that waits."""
    model.default = Reply(text="It is 391.")
    model.script_for("paint", Reply(calls=(("ask_user", {"question": "Which colour?"}),)), Reply(text="Blue it is."))
    run_id = start(api, "What is 17*23?", session_id="demo").json()["run_id"]
    wait_for(api, run_id, "completed")
    night = {"batch_id": "night-1", "agent": "assistant"}
    api.post("/batches", json={**night, "inputs": ["What is 17*23?", {"id": "b", "input": "Say hello."}]})
    until(lambda: api.get("/batches/night-1").json()["status"] == "completed")
    asking: dict[str, Any] = wait_for(api, start(api, "paint").json()["run_id"], "waiting")
    return {"B": str(api.base_url).rstrip("/"), "RUN": run_id, "INTERACTION": asking["interactions"][0]}


def status_of(command: str, environment: dict[str, str], folder: Path) -> str:
    shown = command.replace(
        "curl ", f"curl --silent --max-time 60 --output {folder / 'body'} --write-out '%{{http_code}}' "
    )
    return subprocess.run(
        ["/bin/bash", "-c", shown], env=environment, capture_output=True, text=True, timeout=70, check=False
    ).stdout
