"""The line of a turn that waits for its provider: which refusal it was, and nothing that the provider said."""

from collections.abc import Mapping
from typing import Any

import pytest

from stepagent import think as subject
from stepagent.errors import ModelBusy
from stepagent.llm.plain_reader import PlainReader
from stepagent.llm.providers import Witness, send
from stepagent.llm.registry import ModelSpec
from stepagent.store.turns import Claim
from tests.builders import Heard, a_run
from tests.log_capture import captured_log, lines
from tests.scripted_model import Fault, Raw, ScriptedModel

SECRET = "4000-1234-5678"
ECHO = {"error": {"message": f"Cannot answer: {SECRET}", "type": SECRET, "param": SECRET}}
_FIELDS = {"messages": [{"role": "user", "content": SECRET}]}


def busy(model: ScriptedModel, answer: Fault | Raw) -> ModelBusy:
    """What a request comes to that is answered so."""
    model.script(answer)
    spec = ModelSpec(name="default", provider_model="m", base_url=model.base_url)
    witness = Witness(Heard())
    with pytest.raises(ModelBusy) as raised:
        send(spec, dict(_FIELDS), PlainReader(witness), witness)
    return raised.value


def told(monkeypatch: pytest.MonkeyPatch, error: ModelBusy) -> tuple[dict[str, Any], str]:
    """The line about it, and all that was logged."""
    monkeypatch.setattr(subject, "count_usage", lambda run, usage: None)
    with captured_log() as stream:
        assert subject._wait(a_run(), 1, Claim("c", 1, None), [], error)
    [line] = lines(stream, "model busy")
    return line, stream.getvalue()


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        (Fault(429, {"x-request-id": "req_7"}, ECHO), {"status": 429, "request_id": "req_7"}),
        (Fault(429, {"x-request-id": SECRET * 20}, ECHO), {"status": 429}),
        (Fault(500, body=ECHO), {"status": 500}),
        (Fault(503, body=f"<html>{SECRET}</html>"), {"status": 503}),
        (Raw(chunks=(ECHO,)), {}),
    ],
    ids=["429", "429 with a long id", "500", "a page", "inside the stream"],
)
def test_provider_that_repeats_what_it_was_asked_is_not_quoted_in_the_log(
    monkeypatch: pytest.MonkeyPatch, model: ScriptedModel, answer: Fault | Raw, facts: Mapping[str, Any]
) -> None:
    line, everything = told(monkeypatch, busy(model, answer))
    assert SECRET not in everything
    assert {name: line[name] for name in ("code", "status", "request_id") if name in line} == {
        "code": "model_busy",
        **facts,
    }
    assert (line["turn"], line["attempt"]) == (1, 1)


def test_provider_that_is_not_reached_is_told_by_what_led_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ModelBusy("The server cannot be reached.")
    error.__cause__ = ConnectionError(SECRET)
    line, everything = told(monkeypatch, error)
    assert (line["cause"], SECRET in everything) == ("ConnectionError", False)
