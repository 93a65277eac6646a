"""Bearer keys, and the authorizer's answer to API Gateway."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from stepagent.api.keys import principal_of
from tests.functions import load


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


LISTED = f"ann={digest('key-a')}, bob={digest('key-b').upper()},broken,=,none=,={digest('nameless')}, mü={'ü' * 64}"
METHOD = "arn:aws:execute-api:eu-central-1:1:api/v1/GET/models"


@pytest.fixture(autouse=True)
def _listed(set_environment: Callable[..., None]) -> None:
    set_environment(API_KEY_HASHES=LISTED)


@pytest.mark.parametrize(
    ("header", "name"),
    [("Bearer key-a", "ann"), ("bearer key-a", "ann"), ("Bearer  key-a ", "ann"), ("Bearer key-b", "bob")],
)
def test_key_belongs_to_its_principal_when_it_is_listed(header: str, name: str) -> None:
    assert principal_of(header) == name


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "key-a", "Basic key-a", "Bearer key-c", "Bearer key-A", "Bearer nameless", "Bearer ü"],
)
def test_key_belongs_to_nobody_when_it_is_not_listed(header: str) -> None:
    assert principal_of(header) is None


def test_hash_is_no_key_when_somebody_has_read_the_list() -> None:
    assert principal_of(f"Bearer {digest('key-a')}") is None


def test_nobody_is_admitted_when_no_key_is_listed(set_environment: Callable[..., None]) -> None:
    set_environment(API_KEY_HASHES="")
    assert principal_of("Bearer ") is None


def authorized(**event: str) -> dict[str, Any]:
    answer: dict[str, Any] = load("authorize", "app").handler({"methodArn": METHOD, **event}, None)
    return answer


def test_policy_covers_the_whole_stage_when_the_key_is_known() -> None:
    answer = authorized(authorizationToken="Bearer key-a")
    [statement] = answer["policyDocument"]["Statement"]
    assert (answer["principalId"], statement["Effect"]) == ("ann", "Allow")
    assert statement["Resource"] == "arn:aws:execute-api:eu-central-1:1:api/v1/*"


@pytest.mark.parametrize("event", [{}, {"authorizationToken": "Bearer wrong"}, {"authorizationToken": ""}])
def test_policy_denies_when_the_key_is_not_known(event: dict[str, str]) -> None:
    [statement] = authorized(**event)["policyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
