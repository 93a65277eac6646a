"""Places of keys in usage plans, with API Gateway in memory, and `keys` that makes and gives them back."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from local import keys
from local import usage_plans as subject
from local.keys import KeysUnavailable, Terms
from local.usage_plans import UsagePlanUnavailable, enter_plan, leave_plan
from stepagent.api.keys import caller_of_key
from stepagent.errors import RecordUnavailable
from stepagent.runs import Principal
from stepagent.store.keys import KeyRecord, list_keys
from tests.tables import empty_tables, tables_in_memory

PLAN = "plan1"


@dataclass
class Gateway:
    """API Gateway's API keys and the plans that they stand in. Stands for its client."""

    places: dict[str, dict[str, Any]] = field(default_factory=dict)
    plans: dict[str, set[str]] = field(default_factory=lambda: {PLAN: set()})

    def create_api_key(self, *, name: str, value: str, enabled: bool) -> dict[str, Any]:
        place_id = f"id{len(self.places)}"
        self.places[place_id] = {"id": place_id, "name": name, "value": value, "enabled": enabled}
        return self.places[place_id]

    def create_usage_plan_key(self, *, usagePlanId: str, keyId: str, keyType: str) -> None:  # noqa: N803 (AWS's names)
        if usagePlanId not in self.plans:
            answer = {"Error": {"Code": "NotFoundException", "Message": "Invalid Usage Plan identifier"}}
            raise ClientError(answer, "CreateUsagePlanKey")  # type: ignore[arg-type]  # no more is read
        self.plans[usagePlanId].add(keyId)

    def delete_api_key(self, *, apiKey: str) -> None:  # noqa: N803
        del self.places[apiKey]

    def get_paginator(self, _: str) -> Self:
        return self

    def paginate(self, *, nameQuery: str) -> Iterator[dict[str, Any]]:  # noqa: N803
        for place in list(self.places.values()):  # a page each
            yield {"items": [place] if place["name"].startswith(nameQuery) else []}


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    made = Gateway()
    monkeypatch.setattr(subject, "_gateway", lambda: made)
    return made


@pytest.fixture
def _stack(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stack with a usage plan, whose record is in memory."""
    monkeypatch.setattr(keys, "enter", lambda stack: PLAN)
    with tables_in_memory():
        empty_tables()
        yield


def test_place_stands_in_the_plan_under_the_keys_id(gateway: Gateway) -> None:
    value = enter_plan("key_a", PLAN)
    [place] = gateway.places.values()
    assert (place["name"], place["value"], place["enabled"]) == ("key_a", value, True)
    assert gateway.plans[PLAN] == {place["id"]}


def test_place_has_a_value_that_api_gateway_takes_and_nobody_has(gateway: Gateway) -> None:
    values = {enter_plan("key_a", PLAN) for _ in range(20)}
    assert len(values) == 20
    assert all(20 <= len(value) <= 128 for value in values)


def test_no_place_is_left_when_there_is_no_such_plan(gateway: Gateway) -> None:
    with pytest.raises(UsagePlanUnavailable, match=r"usage plan nowhere: .*Invalid Usage Plan identifier"):
        enter_plan("key_a", "nowhere")
    assert not gateway.places


def test_no_place_is_left_when_the_plan_cannot_be_reached(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_off(**_: str) -> None:
        raise EndpointConnectionError(endpoint_url="https://apigateway")

    monkeypatch.setattr(gateway, "create_usage_plan_key", break_off)
    with pytest.raises(UsagePlanUnavailable):
        enter_plan("key_a", PLAN)
    assert not gateway.places


def test_place_is_given_back_and_no_other_one(gateway: Gateway) -> None:
    for key_id in ("key_a", "key_ab", "key_b"):
        enter_plan(key_id, PLAN)
    leave_plan("key_a")
    assert {place["name"] for place in gateway.places.values()} == {"key_ab", "key_b"}


def test_nothing_happens_when_a_key_without_a_place_leaves(gateway: Gateway) -> None:
    leave_plan("key_a")
    assert not gateway.places


@pytest.mark.usefixtures("_stack")
def test_key_is_counted_by_the_place_that_it_was_made_with(gateway: Gateway) -> None:
    caller = caller_of_key(keys.make(Terms(Principal("alice")), "prod").key)
    [place] = gateway.places.values()
    assert caller is not None
    assert caller.usage_key == place["value"]


@pytest.mark.usefixtures("_stack")
def test_place_does_not_come_from_the_key(gateway: Gateway) -> None:
    made = keys.make(Terms(Principal("alice")), "prod")
    [place], [record] = gateway.places.values(), list_keys()
    assert place["value"] not in made.key + record.digest


@pytest.mark.usefixtures("_stack")
def test_key_stands_in_the_plan_that_is_named(gateway: Gateway) -> None:
    gateway.plans["large"] = set()
    keys.make(Terms(Principal("alice")), "prod", "large")
    assert len(gateway.plans["large"]) == 1
    assert not gateway.plans[PLAN]


@pytest.mark.usefixtures("_stack")
def test_no_key_is_made_when_it_has_no_place() -> None:
    with pytest.raises(KeysUnavailable, match="usage plan nowhere"):
        keys.make(Terms(Principal("alice")), "prod", "nowhere")
    assert list_keys() == []


@pytest.mark.usefixtures("_stack")
def test_place_is_given_back_when_the_key_cannot_be_stored(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: KeyRecord) -> None:
        raise RecordUnavailable("The record did not take a request (ThrottlingException).")

    monkeypatch.setattr(keys, "put_key", refuse)
    with pytest.raises(RecordUnavailable):
        keys.make(Terms(Principal("alice")), "prod")
    assert not gateway.places


@pytest.mark.usefixtures("_stack")
def test_place_is_given_back_when_the_key_is_revoked(gateway: Gateway) -> None:
    keys.make(Terms(Principal("alice")), "prod")
    [record] = list_keys()
    assert keys.revoke(record.key_id, "prod") == f"{record.key_id}, a key for alice, is revoked."
    assert not gateway.places
