"""The emulator stopped and started again: what was said stays said."""

import asyncio
from pathlib import Path

import pytest

from local.build import build
from local.deploy import deploy
from local.emulator import start, stop
from stepagent.api.chat import whole_chat
from tests.integration.runs import begin
from tests.local_loop import ROOT, enter
from tests.scripted_model import Reply, ScriptedModel


def _chat(text: str) -> str:
    reply = asyncio.run(whole_chat(begin(text, "assistant", session_id="restart")))
    answer: str = reply["choices"][0]["message"]["content"]
    return answer


@pytest.mark.usefixtures("restored_environment")
def test_session_goes_on_with_all_its_messages_when_the_emulator_was_restarted(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        parameters = {"ModelBaseUrl": model.base_url, "ModelName": "scripted", "ModelApiKeySecretArn": ""}
        package = build(ROOT, environment={}, parameters=parameters)
        model.script(
            Reply(calls=(("calculator", {"expression": "17*23"}),)), Reply(text="391."), Reply(text="Yes, 391.")
        )
        for text in ("What is 17*23?", "Sure?"):
            emulator = start(tmp_path)
            enter(emulator, deploy(emulator, package), ROOT)
            said = _chat(text)
            stop(emulator)
    roles = [message["role"] for message in model.requests[-1]["messages"]]
    assert said == "Yes, 391."
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
