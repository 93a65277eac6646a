"""What is told to whoever operates a stack."""

import json

import pytest

from stepagent.observe import count_end
from stepagent.runs import StopReason


@pytest.mark.parametrize("reason", list(StopReason))
def test_end_of_a_run_is_counted_by_its_reason(reason: StopReason, capsys: pytest.CaptureFixture[str]) -> None:
    count_end("helper", reason)
    line = json.loads(capsys.readouterr().out)
    assert (line["RunsEnded"], line["agent"], line["stop_reason"]) == ([1.0], "helper", reason.value)
