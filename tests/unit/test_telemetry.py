"""What is measured of turns, calls and ends: one line each under the names that OpenTelemetry has, and metrics."""

import time
from collections.abc import Iterator
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_lambda_powertools.metrics import MetricUnit

from stepagent.errors import ModelBusy
from stepagent.llm.reply import Origin, Reply
from stepagent.observe import logger
from stepagent.runs import CallResult, Decision, StopReason
from stepagent.telemetry import UNTIMED, CallEnd, count_end, count_error, measure, tell_call
from stepagent.turn_watch import CONVENTIONAL_PROVIDERS, TurnWatch
from stepagent.usage import Usage
from tests.builders import NOON, RUN_ID, a_call, a_run, said
from tests.log_capture import Line, Series, captured_log, lines, metrics

SPENT = Usage(input_tokens=100, output_tokens=20, cached_tokens=60, reasoning_tokens=5, cost_usd=Decimal("0.0012"))
ACT = Decision(run_id=RUN_ID, turn=2, next="act")
WHOLE: frozenset[tuple[str, str]] = frozenset()  # the stack as a whole
RUN = a_run()
_COUNT = (MetricUnit.Count, 1.0)


@pytest.fixture
def log() -> Iterator[StringIO]:
    with captured_log() as stream:
        yield stream


def a_reply(**changes: Any) -> Reply:
    origin = Origin("default", "openai", "gpt-5", "gpt-5-2026-01", "tool_choice", time.monotonic() + 100)
    return said("Hi", finish_reason="stop")._replace(origin=origin._replace(**changes))


def told(log: StringIO, *replies: Reply, decision: Decision = ACT, usage: Usage = SPENT, error: Any = None) -> Line:
    """The line of a turn with these replies."""
    watch = TurnWatch(RUN, 2, attempt=1)
    for reply in replies:
        watch.heard(reply)
    watch.tell(decision, usage, error)
    [line] = lines(log, "turn")
    return line


def values(written: list[Series], dimensions: frozenset[tuple[str, str]] = WHOLE) -> dict[str, float]:
    return {series.name: series.value for series in written if series.dimensions == dimensions}


# ---- turns


def test_line_of_a_turn_has_the_names_of_the_conventions(log: StringIO) -> None:
    line = told(log, a_reply())
    first_s = line.pop("gen_ai.response.time_to_first_chunk")
    assert 50 <= first_s <= 100
    assert {name: value for name, value in line.items() if name.startswith(("gen_ai.", "error"))} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5-2026-01",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.agent.name": "helper",
        "gen_ai.conversation.id": "abc",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
    }


@pytest.mark.parametrize(
    ("ours", "conventional"),
    [("azure", "azure.ai.openai"), ("bedrock", "aws.bedrock"), ("gemini", "gcp.gemini"), ("mistral", "mistral_ai")],
)
def test_provider_has_the_name_of_the_conventions(log: StringIO, ours: str, conventional: str) -> None:
    assert told(log, a_reply(provider=ours))["gen_ai.provider.name"] == conventional


def test_every_provider_that_has_another_name_in_the_conventions_is_in_the_catalog() -> None:
    listed = yaml.safe_load((Path(__file__).parents[2] / "catalog" / "models.yaml").read_text())["providers"]
    assert CONVENTIONAL_PROVIDERS.keys() <= listed.keys()


def test_line_of_a_turn_says_which_one_it_is_and_what_came_of_it(log: StringIO) -> None:
    line = told(log, a_reply(), a_reply())
    names = ("run_id", "turn", "attempt", "model", "mode", "next", "requests", "cost_usd")
    assert [line[name] for name in names] == [RUN_ID, 2, 1, "default", "tool_choice", "act", 2, 0.0012]
    assert 0 <= line["duration_ms"] < 10_000


def test_time_to_the_first_token_is_that_of_the_first_reply(log: StringIO) -> None:
    late = time.monotonic() + 900
    assert told(log, a_reply(), a_reply(first_token_at=late))["ttft_ms"] <= 100_000


def test_turn_whose_model_was_not_reached_has_the_error_and_the_agents_model(log: StringIO) -> None:
    line = told(log, error=ModelBusy("The model is busy."), usage=Usage())
    assert (line["error.type"], line["gen_ai.request.model"], line.get("ttft_ms")) == (
        "ModelBusy",
        RUN.agent.model,
        None,
    )


def test_metrics_of_a_turn_are_those_of_the_stack_and_of_its_agent_and_model(
    log: StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    told(log, a_reply())
    written = metrics(capsys)
    whole, own = values(written), values(written, frozenset({("agent", "helper"), ("model", "default")}))
    assert whole == own
    assert whole.pop("TimeToFirstToken") <= 100_000
    assert whole.pop("TurnDuration") < 10_000
    assert whole == {
        "Turns": 1,
        "InputTokens": 100,
        "OutputTokens": 20,
        "CachedInputTokens": 60,
        "ReasoningTokens": 5,
        "CostUsd": 0.0012,
    }


def test_cost_that_is_not_known_is_counted_and_never_zero(log: StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(log, a_reply(), usage=SPENT.model_copy(update={"cost_usd": None})).get("cost_usd") is None
    counted = values(metrics(capsys))
    assert (counted["UnknownCost"], "CostUsd" in counted) == (1, False)


def test_turn_that_waits_counts_what_it_spent_and_its_error_but_no_turn(
    log: StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = Decision(run_id=RUN_ID, turn=2, next="wait", reason="model_busy", wait_s=2)
    told(log, decision=waits, error=ModelBusy("busy"))
    written = metrics(capsys)
    whole = values(written)
    assert ("Turns" in whole, whole["InputTokens"], whole["Errors"]) == (False, 100, 1)
    assert values(written, frozenset({("error", "ModelBusy")})) == {"Errors": 1}
    assert values(written, frozenset({("source", "turn")})) == {"Errors": 1}


# ---- calls


def result(**changes: Any) -> CallResult:
    return CallResult.model_validate({"text": "4000-1234", "finished_at": NOON, **changes})


def test_line_of_a_call_has_the_names_of_the_conventions_and_no_payload(log: StringIO) -> None:
    tell_call(RUN.key, a_call(arguments={"q": "4000-1234"}), result(), CallEnd(1.5))
    [line] = lines(log, "call")
    named = {"run_id": RUN_ID, "turn": 1, "call_id": "call_1_1_0", "tool": "search", "kind": "lambda", "status": "ok"}
    conventional = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "call_1_1_0",
        "gen_ai.conversation.id": "abc",
    }
    assert {**named, **conventional, "duration_ms": 1500}.items() <= line.items()
    assert "4000" not in log.getvalue()


@pytest.mark.parametrize(
    ("end", "is_error", "status", "error"),
    [
        (CallEnd(1), False, "ok", None),
        (CallEnd(1), True, "error", "ToolError"),
        (CallEnd(1, "KeyError"), True, "error", "KeyError"),
        (CallEnd(error="States.Timeout"), True, "error", "States.Timeout"),
    ],
)
def test_call_has_its_status_and_the_class_of_its_error(
    end: CallEnd, is_error: bool, status: str, error: str | None, log: StringIO
) -> None:
    tell_call(RUN.key, a_call(), result(is_error=is_error), end)
    [line] = lines(log, "call")
    assert (line["status"], line.get("error.type")) == (status, error)


def test_call_is_counted_for_the_stack_and_its_tool_with_its_duration_where_that_is_known(
    log: StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_call(RUN.key, a_call(), result(), CallEnd(1.5))
    written = metrics(capsys)
    assert values(written) == values(written, frozenset({("tool", "search")})) == {"Calls": 1, "CallDuration": 1500}
    tell_call(RUN.key, a_call(), result(), UNTIMED)
    assert values(metrics(capsys)) == {"Calls": 1}


def test_tool_that_the_model_made_up_has_no_series_of_its_own(
    log: StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_call(RUN.key, a_call(name="4000-1234"), result(is_error=True), UNTIMED, known=False)
    assert "4000" not in log.getvalue()
    assert {series.dimensions for series in metrics(capsys) if series.name == "Calls"} == {
        WHOLE,
        frozenset({("tool", "unknown")}),
    }


# ---- ends, and metrics as such


@pytest.mark.parametrize("reason", list(StopReason))
def test_end_of_a_run_is_counted_by_its_reason(reason: StopReason, capsys: pytest.CaptureFixture[str]) -> None:
    count_end("helper", reason)
    assert {series.dimensions for series in metrics(capsys)} == {
        WHOLE,
        frozenset({("stop_reason", reason.value)}),
        frozenset({("agent", "helper"), ("stop_reason", reason.value)}),
    }


def test_metrics_are_told_apart_by_their_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logger, "service", "my-stack")
    count_error("turn", "ModelBusy")
    assert '"service":"my-stack"' in capsys.readouterr().out


def test_telling_a_turn_takes_less_than_a_millisecond(log: StringIO) -> None:
    def took_s() -> float:
        watch, began = TurnWatch(RUN, 2), time.process_time()
        watch.heard(a_reply())
        watch.tell(ACT, SPENT)
        return time.process_time() - began

    assert min(took_s() for _ in range(200)) < 0.001


def test_measuring_leaves_nothing_behind_for_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    measure({"A": _COUNT}, {"x": "1"})
    measure({"B": _COUNT})
    assert [series.name for series in metrics(capsys)] == ["A", "A", "B"]
