"""Bearer keys and their scopes, the authorizer's answer to API Gateway, and how keys are made."""

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from local import api_key
from stepagent.api.keys import Caller, caller_of
from stepagent.errors import Forbidden
from stepagent.runs import Principal
from tests.functions import load


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


LISTED = (
    f"ann={digest('key-a')}, bob={digest('key-b').upper()},broken,=,none=,={digest('nameless')}, mü={'ü' * 64}"
    f",carl+catalog={digest('key-c')},dora+catalog+more={digest('key-d')},+catalog={digest('scope only')}"
    f",emil+={digest('key-e')}"
)
METHOD = "arn:aws:execute-api:eu-central-1:1:api/v1/GET/models"


@pytest.fixture(autouse=True)
def _listed(set_environment: Callable[..., None]) -> None:
    set_environment(API_KEY_HASHES=LISTED)


@pytest.mark.parametrize(
    ("header", "name"),
    [("Bearer key-a", "ann"), ("bearer key-a", "ann"), ("Bearer  key-a ", "ann"), ("Bearer key-b", "bob")],
)
def test_key_belongs_to_its_principal_when_it_is_listed(header: str, name: str) -> None:
    assert caller_of(header) == (name, frozenset())


@pytest.mark.parametrize(
    ("key", "scopes"),
    [("key-a", set()), ("key-c", {"catalog"}), ("key-d", {"catalog", "more"}), ("key-e", set())],
)
def test_key_has_the_scopes_that_its_entry_names(key: str, scopes: set[str]) -> None:
    caller = caller_of(f"Bearer {key}")
    assert caller is not None
    assert caller.scopes == scopes


def test_caller_is_refused_by_the_scopes_name_when_it_lacks_it() -> None:
    with pytest.raises(Forbidden, match="'catalog'") as refused:
        Caller(Principal("ann"), frozenset({"catalogue"})).require("catalog")
    assert refused.value.http_status == 403


def test_caller_passes_when_it_has_the_scope() -> None:
    Caller(Principal("carl"), frozenset({"catalog"})).require("catalog")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "key-a",
        "Basic key-a",
        "Bearer key-x",
        "Bearer key-A",
        "Bearer nameless",
        "Bearer scope only",
        "Bearer ü",
    ],
)
def test_key_belongs_to_nobody_when_it_is_not_listed(header: str) -> None:
    assert caller_of(header) is None


def test_hash_is_no_key_when_somebody_has_read_the_list() -> None:
    assert caller_of(f"Bearer {digest('key-a')}") is None


def test_nobody_is_admitted_when_no_key_is_listed(set_environment: Callable[..., None]) -> None:
    set_environment(API_KEY_HASHES="")
    assert caller_of("Bearer ") is None


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


@pytest.mark.parametrize(("key", "scopes"), [("key-a", ""), ("key-c", "catalog"), ("key-d", "catalog more")])
def test_functions_are_told_the_scopes_as_one_text_when_the_key_is_known(key: str, scopes: str) -> None:
    assert authorized(authorizationToken=f"Bearer {key}")["context"] == {"scopes": scopes}


def made(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """The key and the entry that `make api-key` prints."""
    monkeypatch.setattr(sys, "argv", ["api_key", *words])
    api_key.main()
    key, entry = (line.rpartition("  ")[2] for line in capsys.readouterr().out.splitlines())
    return key, entry


@pytest.mark.parametrize(("words", "scopes"), [(["alice"], set()), (["alice", "catalog"], {"catalog"})])
def test_key_that_is_made_is_known_by_the_entry_that_is_printed_with_it(
    words: list[str],
    scopes: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    set_environment: Callable[..., None],
) -> None:
    key, entry = made(monkeypatch, capsys, *words)
    set_environment(API_KEY_HASHES=entry)
    assert caller_of(f"Bearer {key}") == Caller(Principal("alice"), frozenset(scopes))


@pytest.mark.parametrize("words", [[], [""], ["a+b"], ["a=b"], ["a,b"], ["alice", "catalogue"]])
def test_no_key_is_made_when_name_or_scope_is_none(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["api_key", *words])
    with pytest.raises(SystemExit, match=r"Name the client|There is no scope catalogue"):
        api_key.main()
