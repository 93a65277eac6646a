"""Each sample event, fed to its deployed function."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stepagent.runs import Run
from tests.integration.runs import finish, function_named
from tests.local_loop import ROOT, LocalLoop
from tests.scripted_model import Reply, ScriptedModel

SAMPLES = sorted((ROOT / "events").glob("*/*.json"), key=str)
_LOGICAL_IDS = {  # tools are found by the names of their folders
    "think": "ThinkFunction",
    "ask": "AskFunction",
    "record_call_failure": "RecordCallFailureFunction",
    "finalize": "FinalizeFunction",
    "authorize": "AuthorizeFunction",
    "api": "ApiFunction",
    "load_catalog": "LoadCatalogFunction",
    "ingest": "IngestFunction",
    "start_workflow": "StartWorkflowFunction",
    "finish_workflow": "FinishWorkflowFunction",
    "remind": "RemindFunction",
}


@pytest.fixture
def run(loop: LocalLoop, model: ScriptedModel) -> Run:
    """A run that has ended, with one call."""
    model.script_for("one with a call", Reply(calls=(("calculator", {"expression": "17*23"}),)), Reply(text="391"))
    return finish(loop, "one with a call", "assistant")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_function_takes_its_sample_event(loop: LocalLoop, run: Run, sample: Path) -> None:
    payload = re.sub("run_sample_1", run.run_id, sample.read_text())
    function = function_named(loop, _LOGICAL_IDS.get(sample.parent.name, sample.parent.name))
    answer: dict[str, Any] = loop.client("lambda").invoke(FunctionName=function, Payload=payload)
    error = json.load(answer["Payload"]) if "FunctionError" in answer else {}
    # A list of a server that is not there is an answer in the words of the tool, and no fault of the sample.
    assert not error or (sample.parent.name, error["errorType"]) == ("tool_mcp", "ToolError"), error


def test_every_function_that_is_invoked_directly_has_a_sample() -> None:
    functions = {path.parent.name for path in (ROOT / "functions").glob("*/app.py")}
    assert functions - {sample.parent.name for sample in SAMPLES} == {"stream"}  # it is called over HTTP only
