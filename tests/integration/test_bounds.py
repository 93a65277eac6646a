"""Runs that would go on for ever end with an answer and a reason of their own; calls keep to their own fate."""

from pathlib import Path

import pytest

from tests.integration.runs import calls_of, finish, probe, results_of
from tests.local_loop import LocalLoop
from tests.scripted_model import Reply, ScriptedModel


@pytest.mark.parametrize(
    ("agent", "reply"),
    [
        ("by_tools", Reply(calls=(probe("echo"),))),
        ("by_functions", Reply(calls=(probe("echo"),), mode="functions")),
        ("by_text", Reply(text='1: {"toolId": "probe", "arguments": {"action": "echo"}}')),
    ],
)
def test_run_ends_with_an_answer_when_its_model_asks_for_tools_for_ever(
    loop: LocalLoop, model: ScriptedModel, probed: Path, agent: str, reply: Reply
) -> None:
    model.default = reply
    run = finish(loop, f"for ever {agent}", agent)
    assert (run.status, run.stop_reason, bool(run.answer)) == ("completed", "max_turns", True)


def test_run_ends_when_its_calls_are_used_up(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script(
        Reply(calls=(probe("echo", "1"), probe("echo", "2"))),
        Reply(calls=(probe("echo", "3"), probe("echo", "4"))),
        Reply(text="Enough."),
    )
    run = finish(loop, "many calls", "bounded")
    assert (run.stop_reason, run.answer, results_of(run)[:3]) == ("max_calls", "Enough.", ["1", "2", "3"])
    assert probed.read_text().count("echo") == 3


def test_run_ends_when_it_goes_round_in_circles(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.default = Reply(calls=(probe("echo", "same"),))
    run = finish(loop, "circle", "circling")
    assert (run.status, run.stop_reason) == ("completed", "loop")
    assert probed.read_text().count("echo same") == 3
    assert any("same call" in str(message["content"]) for message in model.requests[-1]["messages"])


def test_run_ends_when_its_tokens_are_spent(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.default = Reply(calls=(probe("echo", "x"),), usage=(400, 200))
    run = finish(loop, "spend", "bounded")
    assert (run.status, run.stop_reason) == ("completed", "max_tokens")


def test_process_that_dies_is_an_error_of_its_call_alone(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script(Reply(calls=(probe("exit", "dies"), probe("echo", "lives"))), Reply(text="done"))
    run = finish(loop, "die")
    died, lived = calls_of(run)
    assert died.result
    assert lived.result
    assert (died.result.is_error, lived.result.text) == (True, "lives")
    assert "Its effects are unknown" in died.result.text
    assert probed.read_text().count("exit dies") == 1


def test_call_of_an_idempotent_tool_is_run_again_when_its_process_died(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(("steady", {"action": "exit_first", "value": "once"}),)), Reply(text="done"))
    run = finish(loop, "die and go on", "delegator")
    assert (run.answer, results_of(run)) == ("done", ["once"])
    assert probed.read_text().splitlines() == ["exit_first once"] * 2


def test_same_tool_has_its_own_arguments_in_each_of_many_parallel_calls(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=tuple(probe("echo", str(n)) for n in range(10))), Reply(text="done"))
    run = finish(loop, "ten at once")
    assert results_of(run) == [str(n) for n in range(10)]


def test_calls_run_one_after_the_other_when_the_agent_says_so(
    loop: LocalLoop, model: ScriptedModel, probed: Path
) -> None:
    model.script(Reply(calls=(probe("sleep", "a", 0.3), probe("echo", "b"))), Reply(text="done"))
    run = finish(loop, "in a row", "serial")
    first, second = calls_of(run)
    assert first.result
    assert second.result
    assert second.result.finished_at > first.result.finished_at


def test_long_result_that_is_returned_directly_is_whole(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    long = "长" * 100_000
    model.script(Reply(calls=(("finish", {"action": "echo", "value": long}),)))
    assert finish(loop, "a long answer").answer == long


def test_long_result_is_kept_whole_and_read_in_pieces(loop: LocalLoop, model: ScriptedModel, probed: Path) -> None:
    model.script(
        Reply(calls=(probe("repeat", "长文本 ", 100_000),)),
        Reply(calls=(("read_result", {"call_id": "call_1_1_0", "offset_bytes": 900_000}),)),
        Reply(text="Read."),
    )
    run = finish(loop, "a long one")
    long, piece = calls_of(run)
    assert long.result
    assert piece.result
    assert long.result.kept_bytes == 1_000_000
    assert len(long.result.text.encode()) <= long.result_limit_bytes
    assert "1000000" in long.result.text.replace(",", "")
    assert not piece.result.is_error
    assert "长文本" in piece.result.text
