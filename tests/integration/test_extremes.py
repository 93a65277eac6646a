"""Results, arguments and rows as large as they come, and calls as many."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepagent.api.catalog import put_row
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.rows import RowKey, RowKind
from stepagent.runs import Principal
from tests.integration.runs import calls_of, finish, probe, results_of
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel

ANN = Caller(Principal("ann"), frozenset({"catalog"}))
ANYHOW = Precondition("", "")


def put(kind_of_row: RowKind, name: str, **fields: Any) -> None:
    put_row(RowKey(kind_of_row, name), json.dumps(fields).encode(), ANYHOW, ANN)


@pytest.mark.parametrize("text", ["x" * 1_000, "長い文" * 300, "👩‍👩‍👧‍👦" * 100, '\\"\n\x00' * 250])
def test_result_of_twenty_megabytes_is_kept_and_read_on(
    loop: LocalLoop, model: ScriptedModel, probed: Path, text: str
) -> None:
    times = 20_500_000 // len(text.encode())
    last = {"call_id": "call_1_1_0", "offset_bytes": 19_999_000}
    model.script(Reply(calls=(probe("repeat", text, times),)), Reply(calls=(("read_result", last),)), Reply(text="Ok."))
    run = finish(loop, "a huge one", "archivist")
    long, piece = (call.result for call in calls_of(run))
    assert long
    assert piece
    assert (run.answer, piece.is_error) == ("Ok.", False)
    assert 19_999_990 <= (long.kept_bytes or 0) <= 20_000_000  # whole characters
    assert "no more than 20000000 are kept" in piece.text


def test_image_of_a_megabyte_reaches_the_model(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script(Reply(calls=(probe("show", "", 1_000_000),)), Reply(text="Seen."))
    assert finish(loop, "show it").answer == "Seen."


def test_agent_with_more_tools_than_an_item_holds_runs(loop: LocalLoop, model: ScriptedModel) -> None:
    names = [f"large_{number}" for number in range(12)]
    for name in names:
        described = {"q": {"type": "string", "description": "d" * 60_000}}
        parameters = {"type": "object", "properties": described}
        put("tool", name, description="Large.", kind="lambda", target="tool_probe", parameters=parameters)
    put("agent", "heavy", instructions="Probe.", tools=names)
    model.script(Reply(calls=(("large_7", {"q": "x"}),)), Reply(text="Done."))
    assert finish(loop, "heavy", "heavy").answer == "Done."


def test_arguments_of_ninety_kilobytes_in_each_of_twenty_calls_are_run(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    put("agent", "wide", instructions="Probe.", tools=["probe"], limits={"max_calls_per_turn": 20})
    calls = tuple(probe("echo", f"{number}".rjust(90_000, "x")) for number in range(20))
    model.script(Reply(calls=calls, chunk_chars=10_000), Reply(text="Done."))
    run = finish(loop, "wide", "wide")
    assert (run.answer, len(results_of(run))) == ("Done.", 20)


def test_reply_with_a_thousand_calls_is_answered(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script(Reply(calls=tuple(probe("echo", str(n)) for n in range(1_000))), Reply(text="Done."))
    run = finish(loop, "a thousand")
    assert (run.answer, probed.read_text().count("echo")) == ("Done.", 10)
