"""Each sample event, fed to its deployed function."""

import pytest

from local.sam.samples import Sample, find_samples
from local.sam.stack import SampleStack
from stepagent.batches.models import BatchKey, batch_key
from stepagent.runs import Run
from tests.integration.runs import ME, finish
from tests.local_loop import ROOT, LocalLoop
from tests.scripted_model import Reply, ScriptedModel

SAMPLES = find_samples(ROOT)
SAMPLE_BATCH = "abcdefghijklmnopqrstuvwxyz234567"
# What is no fault of the sample: nobody serves at the address that it names.
ANSWERED_BY_ERRORS = {"tool_mcp/list": "ToolError"}


@pytest.fixture(scope="module")
def stack(loop: LocalLoop) -> SampleStack:
    return SampleStack(loop.emulator, ROOT)


@pytest.fixture
def run(loop: LocalLoop, model: ScriptedModel) -> Run:
    """A run that has ended, with one call."""
    model.script_for("one with a call", Reply(calls=(("calculator", {"expression": "17*23"}),)), Reply(text="391"))
    model.default = Reply(text="Indeed.")
    return finish(loop, "one with a call", "assistant")


@pytest.fixture
def batch(stack: SampleStack, model: ScriptedModel) -> BatchKey:
    """The batch that one of the samples begins."""
    model.default = Reply(text="Indeed.")
    [begins] = [sample for sample in SAMPLES if sample.name == "api/begin_batch"]
    assert stack.answer(begins)["statusCode"] == 202
    return batch_key(ME, "sample")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_function_takes_its_sample_event(stack: SampleStack, run: Run, batch: BatchKey, sample: Sample) -> None:
    text = sample.path.read_text().replace("run_sample_1", run.run_id).replace(SAMPLE_BATCH, batch)
    answer = stack.answer(sample, text)
    error = answer.get("errorType") if isinstance(answer, dict) else None
    assert error == ANSWERED_BY_ERRORS.get(sample.name), answer
    assert not isinstance(answer, dict) or answer.get("statusCode", 200) < 500, answer


def test_samples_of_the_web_server_come_to_an_answer(stack: SampleStack, run: Run) -> None:
    found = {
        sample.situation: stack.answer(sample, sample.path.read_text().replace("run_sample_1", run.run_id))
        for sample in SAMPLES
        if sample.function == "stream"
    }
    assert {situation: answer["statusCode"] for situation, answer in found.items()} == {
        "complete_chat": 200,
        "create_response": 200,
        "follow_run": 200,
        "stream_chat": 200,
    }
    assert "Indeed." in found["complete_chat"]["body"]
    assert "run.completed" in found["follow_run"]["body"]
    assert found["stream_chat"]["body"].endswith("data: [DONE]\n\n")
