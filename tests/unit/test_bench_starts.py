"""What starts, batches, results and months cost beside the runs: amounts, and that what they stand on is so."""

import io
import json
import re
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from bench import standing
from bench.batches import BatchUsage, Moved, shares
from bench.cost import lines
from bench.prices import bill, billed, load_prices
from bench.report_cost import cost
from bench.standing import month_amounts
from bench.starts import batch_amounts, reply_amounts, start_amounts
from stepagent.runs import CallResult, Decision, StopReason
from stepagent.telemetry import CallEnd, count_end, tell_call
from stepagent.turn_watch import TurnWatch
from stepagent.usage import Usage
from tests.builders import NOON, RUN_ID, a_call, a_run, said
from tests.functions import ROOT
from tests.log_capture import captured_log, metrics

FUNCTION_S = 0.1
LISTED = load_prices()
GIVEN = LISTED.assumptions.model_copy(
    update={"function_gb": 0.5, "batch_gb": 1.0, "reply_s": 0.5, "pollers": 5, "poll_s": 20}
)
USED = BatchUsage(10, input=Moved(2, 4, 9, 1, 0), batch=Moved(6, 10, 6, 2, 5))
STARTS = start_amounts(FUNCTION_S, GIVEN)
BATCHES = batch_amounts(USED, FUNCTION_S, GIVEN)
ALL = {**STARTS, **BATCHES, **reply_amounts(GIVEN), **month_amounts(GIVEN)}
TEMPLATE: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())
RESOURCES: dict[str, dict[str, Any]] = TEMPLATE["Resources"]
RESULT: dict[str, Any] = json.loads(
    json.dumps(
        {
            "at": "today",
            "took_s": 1,
            "load_before": 0.1,
            "overheads": {"turn_s": 0.05, "loop_turn_s": 0.01},
            **LISTED.model_dump(mode="json"),
            "rows": [],
            "starts": billed({**STARTS, **BATCHES}, LISTED.prices, 1000),
            "batch_inputs": 10,
            "month": billed(month_amounts(GIVEN), LISTED.prices, 1),
        }
    )
)


def of_type(name: str) -> list[dict[str, Any]]:
    return [resource for resource in RESOURCES.values() if resource["Type"] == name]


def told_by_metrics(capsys: pytest.CaptureFixture[str]) -> dict[frozenset[str], set[str]]:
    """Names of the metrics of everything that goes well, by the names of their dimensions."""
    watch, reply = TurnWatch(a_run(), 1), said("Hi")
    watch.heard(reply._replace(origin=reply.origin._replace(model="default", first_token_at=0)))
    with captured_log():
        watch.tell(Decision(run_id=RUN_ID, turn=1, next="act"), Usage())
        tell_call(a_run().key, a_call(), CallResult(text="", finished_at=NOON), CallEnd(1))
        count_end("helper", StopReason.ANSWERED)
    found: dict[frozenset[str], set[str]] = {}
    for series in metrics(capsys):
        found.setdefault(frozenset(dict(series.dimensions)), set()).add(series.name)
    return found


def test_every_start_pays_for_its_way_through_a_queue_and_for_one_function() -> None:
    for amounts in STARTS.values():
        assert amounts.get("sqs_request", 0) + amounts.get("fifo_request", 0) == 3
        assert amounts["lambda_request"] == 1
        assert amounts["lambda_gb_s"] == pytest.approx(0.05)


def test_object_pays_for_being_put_told_and_read() -> None:
    more = STARTS["an object in the inbox"].items() - STARTS["a job in the queue"].items()
    assert dict(more) == {"s3_write": 1, "s3_read": 1, "event": 1}


def test_input_of_a_batch_pays_for_what_was_counted_and_for_one_function() -> None:
    counted = {"transition": 2, "read_unit": 4, "write_unit": 9, "s3_read": 1, "s3_write": 0}
    assert BATCHES["an input of a batch"] == {**counted, "lambda_request": 1, "lambda_gb_s": pytest.approx(0.05)}


def test_batch_pays_for_its_request_and_for_what_prepares_and_finishes_it() -> None:
    itself = BATCHES["a batch itself"]
    assert (itself["transition"], itself["api_request"], itself["lambda_request"]) == (6, 1, 4)
    assert itself["lambda_gb_s"] == pytest.approx(2 * 0.05 + 2 * 0.1)


def test_result_pays_for_as_long_as_its_receiver_takes() -> None:
    [result] = reply_amounts(GIVEN).values()
    assert result == {"sqs_request": 3, "lambda_request": 1, "lambda_gb_s": 0.25}


def test_shares_are_the_differences_of_two_batches_and_of_as_many_runs() -> None:
    run, beside, batch = Moved(0, 10, 36, 0, 0), Moved(2, 4, 9, 1, 0), Moved(6, 10, 6, 2, 5)
    few, more = 1, 10

    def whole(inputs: int) -> Moved:
        return Moved(*(b + inputs * (i + r) for b, i, r in zip(batch, beside, run, strict=True)))

    runs = Moved(*(more * each for each in run))
    assert shares(whole(few), whole(few + more), runs, few, more) == BatchUsage(more, beside, batch)


def test_empty_queue_is_asked_by_each_poller_as_often_as_its_wait_ends() -> None:
    month = month_amounts(GIVEN)
    assert month["an empty queue"] == {"sqs_request": 5 * 30 * 24 * 60 * 3}
    assert bill(month["an empty queue"], LISTED.prices, 1) == {"sqs_request": 0.2592}


@pytest.mark.parametrize("name", ALL)
def test_everything_has_a_price(name: str) -> None:
    assert ALL[name].keys() <= LISTED.prices.keys()


def test_every_price_is_of_something() -> None:
    of_runs = {"api_request", "read_unit", "write_unit", "transition"}
    assert of_runs | {name for amounts in ALL.values() for name in amounts} == LISTED.prices.keys()


def test_row_says_what_it_is_made_of_and_what_so_many_cost() -> None:
    [row] = billed({"a": {"transition": 2, "s3_read": 0}}, LISTED.prices, 1000)
    assert row == {"name": "a", "amounts": {"transition": 2, "s3_read": 0}, "usd": {"transition": 0.05}}


def test_memory_of_batches_is_that_of_the_template() -> None:
    sizes = {RESOURCES[f"{name}BatchFunction"]["Properties"]["MemorySize"] for name in ("Prepare", "Finish")}
    assert sizes == {LISTED.assumptions.batch_gb * 1024}


def test_queues_are_those_from_which_functions_take_messages() -> None:
    sources = [each["Properties"]["EventSourceArn"] for each in of_type("AWS::Lambda::EventSourceMapping")]
    queues = [RESOURCES[source["Fn::GetAtt"][0]]["Properties"] for source in sources]
    fifo = sum(queue.get("FifoQueue", False) for queue in queues)
    assert (len(queues) - fifo, fifo) == (standing.QUEUES, standing.FIFO_QUEUES)


def test_alarms_and_dashboards_are_those_of_the_template() -> None:
    found = len(of_type("AWS::CloudWatch::Alarm")), len(of_type("AWS::CloudWatch::Dashboard"))
    assert found == (standing.ALARMS, standing.DASHBOARDS)


def test_metrics_are_as_many_as_the_code_writes(capsys: pytest.CaptureFixture[str]) -> None:
    told = told_by_metrics(capsys)
    assert len(told[frozenset({"agent", "model"})]) == standing.MODEL_SERIES
    assert len(told[frozenset({"tool"})]) == standing.TOOL_SERIES
    whole = told[frozenset()] | {"Errors", "Replies", "UnknownCost"}  # of what does not go well, and of results sent
    assert len(whole) == standing.STACK_SERIES


def test_what_is_logged_is_about_as_long_as_is_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    watch, reply = TurnWatch(a_run(), 1), said("Hi")
    watch.heard(reply._replace(origin=reply.origin._replace(model="default", first_token_at=0)))
    with captured_log() as log:
        watch.tell(Decision(run_id=RUN_ID, turn=1, next="act"), Usage())
        turn_bytes = _drain(log, capsys)
        tell_call(a_run().key, a_call(), CallResult(text="", finished_at=NOON), CallEnd(1))
        call_bytes = _drain(log, capsys)
    assert turn_bytes == pytest.approx(LISTED.assumptions.turn_log_bytes, rel=0.25)
    assert call_bytes == pytest.approx(LISTED.assumptions.call_log_bytes, rel=0.25)


def _drain(log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> int:
    written = log.getvalue() + capsys.readouterr().out
    log.seek(0)
    log.truncate()
    return len(written.encode())


def test_command_prints_every_start_and_every_month() -> None:
    printed = lines(RESULT)
    assert "cost of 1,000 times a job in the queue: $0.0021" in printed
    assert "cost of a month of an empty queue: $0.26" in printed
    assert len(printed) == len(STARTS) + len(BATCHES) + len(month_amounts(GIVEN))


def test_page_shows_what_the_command_prints() -> None:
    page = cost(RESULT)
    assert "| a job in the queue | $0.0021 | 3 SQS requests, 1 Lambda requests, 0.05 Lambda GB-s |" in page
    assert "| an empty queue | $0.26 | 648,000 SQS requests |" in page


def test_operations_leave_figures_of_cost_to_the_command() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    assert not [line for line in text.splitlines() if re.search(r"\bUSD\b|10⁶", line)]
    headings = [line.removeprefix("## ") for line in cost(RESULT).splitlines() if line.startswith("## ")]
    named = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert named <= set(re.findall(r"\]\(benchmarks\.md#([\w-]+)\)", text))
