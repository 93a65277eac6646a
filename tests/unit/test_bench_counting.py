"""The front that counts: what passes through it, and what it writes down."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from bench.counting import Counter
from bench.spans import Span

ITEM = {"pk": {"S": "p"}}


class Upstream:
    """Stands for the emulator: answers with what it is told to, and keeps what it was asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return httpx.Response(200, json=self.answer, headers={"x-of": "upstream"})


def counter_before(upstream: Upstream) -> Counter:
    return Counter(httpx.AsyncClient(base_url="http://upstream", transport=httpx.MockTransport(upstream)))


async def send(counter: Counter, target: str, body: dict[str, Any]) -> httpx.Response:
    transport = httpx.ASGITransport(counter.app)
    async with httpx.AsyncClient(base_url="http://front", transport=transport) as client:
        return await client.post("/", json=body, headers={"x-amz-target": target})


def ask(counter: Counter, target: str, body: dict[str, Any]) -> httpx.Response:
    return asyncio.run(send(counter, target, body))


def test_front_counts_a_request_of_dynamodb() -> None:
    counter = counter_before(Upstream({"Item": ITEM}))
    ask(counter, "DynamoDB_20120810.GetItem", {"ConsistentRead": True})
    [counted] = counter.counted
    assert (counted.operation, counted.read_units, counted.write_units) == ("GetItem", 1, 0)


def test_front_counts_the_bytes_that_the_product_moves() -> None:
    upstream = Upstream({"Item": ITEM, "ConsumedCapacity": {"CapacityUnits": 1.0}})
    counter, body = counter_before(upstream), {"ConsistentRead": True}
    ask(counter, "DynamoDB_20120810.GetItem", body)
    sent, received = (len(json.dumps(each, separators=(",", ":"))) for each in (body, {"Item": ITEM}))
    assert (counter.counted[0].sent_bytes, counter.counted[0].received_bytes) == (sent, received)


def test_front_asks_what_a_write_costs() -> None:
    upstream = Upstream({"ConsumedCapacity": {"CapacityUnits": 7.0}})
    counter = counter_before(upstream)
    ask(counter, "DynamoDB_20120810.UpdateItem", {"TableName": "t"})
    asked = json.loads(upstream.asked[0].content)
    assert (asked, counter.counted[0].write_units) == ({"TableName": "t", "ReturnConsumedCapacity": "TOTAL"}, 7)


def test_front_leaves_requests_of_other_services_as_they_are() -> None:
    upstream = Upstream({"Entries": []})
    ask(counter_before(upstream), "AWSEvents.PutEvents", {"Entries": []})
    assert json.loads(upstream.asked[0].content) == {"Entries": []}


@pytest.mark.parametrize("name", ["x-of", "content-type"])
def test_front_passes_answers_on(name: str) -> None:
    upstream = Upstream({"Item": ITEM})
    answer = ask(counter_before(upstream), "DynamoDB_20120810.GetItem", {})
    assert (answer.json(), bool(answer.headers[name])) == ({"Item": ITEM}, True)


def test_requests_of_a_span_are_those_answered_in_it() -> None:
    counter = counter_before(Upstream({"Item": ITEM}))
    began = time.time()
    ask(counter, "DynamoDB_20120810.GetItem", {"TableName": "t"})
    ended = time.time()
    assert len(counter.within(Span(began, ended + 1))) == 1
    assert not counter.within(Span(ended + 1, ended + 2))
