"""What runs cost: counted usage times list prices."""

from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from bench.cost import Overheads, amounts, loop_amounts, overheads_of
from bench.prices import bill, load_prices
from bench.usage import Shape, Usage

OVERHEADS = Overheads(turn_s=0.05, loop_turn_s=0.01)
LISTED = load_prices()
GIVEN = LISTED.assumptions.model_copy(
    update={"tool_s": 0.2, "think_gb": 1.0, "function_gb": 0.5, "loop_gb": 1.0, "loop_longest_s": 900}
)


def usage(shape: Shape, **used: Any) -> Usage:
    counted = {"transitions": 3, "read_units": 10.0, "write_units": 20.0, "s3_reads": 0, "s3_writes": 0, "events": 0}
    return Usage(**{"shape": shape, "model_s": 4.0, "conversation_bytes": 1500, **counted, **used})


CHAT = usage(Shape("chat", "chat", 0, 0))
JOB = usage(Shape("job", "job", 2, 3))
PERSON = usage(Shape("person", "job", 1, 1, 1))


def test_chat_pays_for_thinking_and_for_following() -> None:
    think_s = 4.0 + 0.05
    assert amounts(CHAT, OVERHEADS, GIVEN)["lambda_gb_s"] == pytest.approx(1.0 * think_s + 0.5 * (think_s + 0.02))


def test_job_pays_for_each_call_and_for_nobody_who_follows() -> None:
    think_s, tool_s, ingest_s = 4.0 + 3 * 0.05, 6 * (0.2 + 0.05), 0.05
    assert amounts(JOB, OVERHEADS, GIVEN)["lambda_gb_s"] == pytest.approx(think_s + 0.5 * (tool_s + ingest_s))


@pytest.mark.parametrize(("used", "requests"), [(CHAT, 3), (JOB, 3 + 6 + 1), (PERSON, 2 + 1 + 1 + 2)])
def test_functions_are_counted(used: Usage, requests: int) -> None:
    assert amounts(used, OVERHEADS, GIVEN)["lambda_request"] == requests


def test_what_was_counted_is_passed_on() -> None:
    used = amounts(JOB, OVERHEADS, GIVEN)
    assert (used["transition"], used["read_unit"], used["write_unit"]) == (3, 10, 20)


def test_loop_waits_for_its_tools_once_a_turn() -> None:
    loop = loop_amounts(JOB, OVERHEADS, GIVEN)
    assert loop
    assert loop["lambda_gb_s"] == pytest.approx(4.0 + 3 * 0.01 + 2 * 0.2)


def test_loop_cannot_wait_for_a_person() -> None:
    assert loop_amounts(PERSON, OVERHEADS, GIVEN) is None


def test_loop_cannot_run_longer_than_a_lambda() -> None:
    assert loop_amounts(usage(JOB.shape, model_s=900.0), OVERHEADS, GIVEN) is None


def test_bill_is_amounts_times_prices() -> None:
    assert bill({"transition": 53, "event": 2, "s3_read": 0}, LISTED.prices) == {"transition": 1.325, "event": 0.002}


@pytest.mark.parametrize("used", [CHAT, JOB, PERSON])
def test_everything_used_has_a_price(used: Usage) -> None:
    both = amounts(used, OVERHEADS, GIVEN).keys() | (loop_amounts(used, OVERHEADS, GIVEN) or {}).keys()
    assert both <= LISTED.prices.keys()


def test_every_price_names_the_page_that_says_so() -> None:
    assert all(price.source.startswith("https://aws.amazon.com/") for price in LISTED.prices.values())


def test_memory_is_that_of_the_template() -> None:
    template = yaml_parse((Path(__file__).parents[2] / "template.yaml").read_text())
    think = template["Resources"]["ThinkFunction"]["Properties"]["MemorySize"]
    other = template["Globals"]["Function"]["MemorySize"]
    assert (LISTED.assumptions.think_gb, LISTED.assumptions.function_gb) == (think / 1024, other / 1024)


def test_overheads_are_those_of_one_call_over_ten_turns() -> None:
    rows = [
        {"system": system, "calls": calls, "turns": 10, "median_ms": median_ms}
        for system, calls, median_ms in [("stepagent", 1, 50.0), ("stepagent", 0, 30.0), ("a", 1, 12.0), ("b", 1, 8.0)]
    ]
    assert overheads_of({"rows": rows}) == Overheads(0.05, 0.008)
