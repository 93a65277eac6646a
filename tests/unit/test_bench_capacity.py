"""Request units by DynamoDB's rules."""

from typing import Any

import pytest

from bench.capacity import units_of


def item_of(size_bytes: int) -> dict[str, Any]:
    return {"a": {"S": "x" * (size_bytes - 1)}}  # the name is a byte, too


@pytest.mark.parametrize(("size_bytes", "units"), [(10, 1), (4096, 1), (4097, 2), (40_000, 10)])
def test_consistent_read_costs_a_unit_for_each_four_kilobytes(size_bytes: int, units: int) -> None:
    assert units_of("GetItem", {"ConsistentRead": True}, {"Item": item_of(size_bytes)}).read == units


def test_read_that_need_not_be_consistent_costs_half() -> None:
    assert units_of("GetItem", {}, {"Item": item_of(4097)}).read == 1


def test_query_is_charged_for_all_its_items_together() -> None:
    answer = {"Items": [item_of(3000), item_of(3000), item_of(2000)]}
    assert units_of("Query", {"ConsistentRead": True}, answer).read == 2


def test_query_that_finds_nothing_is_charged() -> None:
    assert units_of("Query", {"ConsistentRead": True}, {"Items": []}).read == 1


def test_batch_is_charged_for_each_item_found_or_not() -> None:
    asked = {"RequestItems": {"t": {"Keys": [{}, {}, {}], "ConsistentRead": True}}}
    assert units_of("BatchGetItem", asked, {"Responses": {"t": [item_of(5000), item_of(10)]}}).read == 2 + 1 + 1


def test_write_is_charged_as_the_emulator_says() -> None:
    answered = {"ConsumedCapacity": [{"CapacityUnits": 4.0}, {"CapacityUnits": 2.0}]}
    assert units_of("TransactWriteItems", {}, answered).write == 6


def test_write_that_a_condition_refused_is_charged() -> None:
    assert units_of("UpdateItem", {}, {"__type": "ConditionalCheckFailedException"}).write == 1


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [
        ({"N": "-123.45"}, 3),
        ({"BOOL": True}, 1),
        ({"L": [{"S": "ab"}]}, 3 + 1 + 2),
        ({"M": {"k": {"S": "ab"}}}, 3 + 1 + 3),
    ],
)
def test_values_have_the_documented_size(value: dict[str, Any], size_bytes: int) -> None:
    rest = 4096 - size_bytes - 2  # with two names of a byte each: exactly one unit
    full = {"v": value, "r": {"S": "x" * rest}}
    more = {"v": value, "r": {"S": "x" * (rest + 1)}}
    reads = [units_of("GetItem", {"ConsistentRead": True}, {"Item": item}).read for item in (full, more)]
    assert reads == [1, 2]


def test_other_requests_cost_nothing() -> None:
    assert units_of("DescribeTable", {}, {}) == (0, 0)
