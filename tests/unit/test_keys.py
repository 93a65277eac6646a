"""Bearer keys: how they look, whom they belong to, and what the authorizer answers API Gateway."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from stepagent.api import keys as subject
from stepagent.api.keys import Caller, bearer_in, caller_in, caller_of_key, digest_of, is_name, is_well_formed, make_key
from stepagent.clock import now
from stepagent.errors import Forbidden, NotFound, RecordUnavailable
from stepagent.runs import Principal
from stepagent.spending import KeyBudget, UsedKey
from stepagent.store import keys as store
from stepagent.store.keys import KeyRecord, find_key, list_keys, put_key, revoke_key
from stepagent.store.table import Refused, query
from tests.functions import load
from tests.tables import empty_tables, tables_in_memory


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


LISTED = (
    f"ann={digest('key-a')}, bob={digest('key-b').upper()},broken,=,none=,={digest('nameless')}, mü={'ü' * 64}"
    f",carl+catalog={digest('key-c')},dora+catalog+more={digest('key-d')},+catalog={digest('scope only')}"
    f",emil+={digest('key-e')},https://issuer.example#ann={digest('key-f')}"
)
METHOD = "arn:aws:execute-api:eu-central-1:1:api/v1/GET/models"


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def _listed(set_environment: Callable[..., None]) -> None:
    empty_tables()
    set_environment(API_KEY_HASHES=LISTED)


def caller_of(header: str) -> Caller | None:
    return caller_of_key(bearer_in(header))


def a_record(key: str, **changes: Any) -> KeyRecord:
    return KeyRecord.model_validate({"digest": digest_of(key), "name": "ann", "created_at": now(), **changes})


def recorded(**terms: Any) -> str:
    """A new key that stands in the record."""
    key = make_key()
    put_key(a_record(key, **terms))
    return key


@pytest.mark.parametrize(
    ("header", "name"),
    [("Bearer key-a", "ann"), ("bearer key-a", "ann"), ("Bearer  key-a ", "ann"), ("Bearer key-b", "bob")],
)
def test_key_belongs_to_its_principal_when_it_is_listed(header: str, name: str) -> None:
    caller = caller_of(header)
    assert caller is not None
    assert (caller.principal, caller.scopes) == (name, frozenset())


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
        "Bearer \ud800",
        "Bearer key-a key-a",
        "Bearer key-a,key-b",
        "Bearer\tkey-a",
        "Bearer key-f",
        "Bearer " + "x" * 100_000,
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


def test_callers_without_a_place_of_their_own_are_counted_together(set_environment: Callable[..., None]) -> None:
    set_environment(API_KEY_HASHES=f"ann={digest('key-a')}", SHARED_USAGE_KEY="stepagent-shared")
    assert authorized(authorizationToken="Bearer key-a")["usageIdentifierKey"] == "stepagent-shared"


def test_key_of_the_record_is_counted_alone_when_it_has_a_place(set_environment: Callable[..., None]) -> None:
    set_environment(SHARED_USAGE_KEY="stepagent-shared")
    answer = authorized(authorizationToken=f"Bearer {recorded(usage_key='place-of-ann')}")
    assert answer["usageIdentifierKey"] == "place-of-ann"


def test_functions_are_not_told_by_what_a_caller_is_counted() -> None:
    answer = authorized(authorizationToken=f"Bearer {recorded(usage_key='place-of-ann')}")
    assert "place-of-ann" not in json.dumps(answer["context"])


@pytest.mark.parametrize("event", [{}, {"authorizationToken": "Bearer wrong"}, {"authorizationToken": ""}])
def test_policy_denies_when_the_key_is_not_known(event: dict[str, str]) -> None:
    [statement] = authorized(**event)["policyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"


@pytest.mark.parametrize(("key", "scopes"), [("key-a", ""), ("key-c", "catalog"), ("key-d", "catalog more")])
def test_functions_are_told_the_scopes_as_one_text_when_the_key_is_known(key: str, scopes: str) -> None:
    context = authorized(authorizationToken=f"Bearer {key}")["context"]
    assert context["scopes"] == scopes
    assert all(isinstance(value, str) for value in context.values())


def test_functions_are_told_the_keys_id_and_never_the_key() -> None:
    answer = json.dumps(authorized(authorizationToken="Bearer key-a"))
    assert f"key_{digest('key-a')[:16]}" in answer
    assert '"key-a"' not in answer
    assert digest("key-a") not in answer


@pytest.mark.parametrize(
    "caller",
    [
        Caller(Principal("ann")),
        Caller(Principal("https://issuer.example#Müller"), frozenset({"catalog", "more"})),
        Caller(Principal("ann"), frozenset(), UsedKey(key_id="key_1")),
        Caller(
            Principal("a"),
            used_key=UsedKey(key_id="k", budget=KeyBudget.model_validate({"per": "day", "max_cost_usd": "0.1"})),
        ),
    ],
)
def test_functions_find_the_caller_that_the_authorizer_found(caller: Caller) -> None:
    assert caller_in({"principalId": caller.principal, **caller.context}) == caller


# ---- keys of the record


def test_key_looks_like_what_scanners_for_secrets_can_know() -> None:
    assert re.fullmatch(r"sk-sa-[0-9A-Za-z]{38}", make_key())


def test_keys_are_never_made_twice() -> None:
    assert len({make_key() for _ in range(1_000)}) == 1_000


def test_key_is_well_formed_when_it_was_made_here() -> None:
    assert all(is_well_formed(make_key()) for _ in range(200))


def test_key_is_not_well_formed_when_one_character_is_another() -> None:
    key = make_key()
    changed = [f"{key[:at]}{'b' if key[at] == 'a' else 'a'}{key[at + 1 :]}" for at in range(6, len(key))]
    assert not any(map(is_well_formed, changed))


@pytest.mark.parametrize("change", [str.upper, lambda key: f" {key}", lambda key: f"{key}\n", lambda key: key[:-1]])
def test_key_is_not_well_formed_when_it_is_written_otherwise(change: Callable[[str], str]) -> None:
    assert not is_well_formed(change(make_key()))


def test_text_that_is_no_key_costs_no_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "find_key", lambda digest: pytest.fail("read"))
    assert caller_of_key("sk-sa-" + "a" * 38) is None


def test_key_of_the_record_belongs_to_its_name_with_its_scopes_and_budget() -> None:
    budget = KeyBudget(per="day", max_total_tokens=5)
    key = recorded(name="bob", scopes=("catalog",), budget=budget)
    used = UsedKey(key_id=f"key_{digest(key)[:16]}", budget=budget)
    assert caller_of_key(key) == Caller(Principal("bob"), frozenset({"catalog"}), used)


def test_key_is_stored_as_its_hash_alone() -> None:
    key = recorded()
    assert key not in str(query("KEYS", "KEY#"))


def test_nobody_is_admitted_when_the_key_was_made_elsewhere() -> None:
    recorded()
    assert caller_of_key(make_key()) is None


def test_key_is_refused_when_it_is_revoked() -> None:
    key = recorded()
    revoke_key(a_record(key).key_id)
    assert caller_of_key(key) is None


def test_key_that_is_revoked_twice_keeps_its_time() -> None:
    key_id = a_record(recorded()).key_id
    assert revoke_key(key_id) == revoke_key(key_id)


def test_other_key_of_the_same_name_goes_on_when_one_is_revoked() -> None:
    old, new = recorded(), recorded()
    revoke_key(a_record(old).key_id)
    assert (caller_of_key(old) is None, caller_of_key(new) is None) == (True, False)


@pytest.mark.parametrize("key_id", ["", "key_", "key_0", "key_" + "0" * 16, "key_" + "0" * 64, "ann", "KEY#"])
def test_nothing_is_revoked_when_no_key_has_the_id(key_id: str) -> None:
    key = recorded()
    with pytest.raises(NotFound):
        revoke_key(key_id)
    assert caller_of_key(key) is not None


@pytest.mark.parametrize(("seconds", "admitted"), [(60, True), (-1, False)])
def test_key_is_admitted_until_it_expires(seconds: int, admitted: bool) -> None:
    assert bool(caller_of_key(recorded(expires_at=now() + timedelta(seconds=seconds)))) is admitted


def test_same_key_is_not_written_over() -> None:
    record = a_record(make_key())
    put_key(record)
    with pytest.raises(Refused):
        put_key(record.model_copy(update={"scopes": ("catalog",)}))


def test_use_of_a_key_is_written_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    key, moment, seen = recorded(), now(), []
    for minutes in (0, 59, 61, 100, 130):
        monkeypatch.setattr(store, "now", lambda at=moment + timedelta(minutes=minutes): at)
        caller_of_key(key)
        record = find_key(digest(key))
        assert record
        assert record.last_used_at
        seen.append(round((record.last_used_at - moment).total_seconds() / 60))
    assert seen == [0, 0, 61, 61, 130]


def test_key_is_admitted_when_its_use_cannot_be_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(record: KeyRecord) -> None:
        raise RecordUnavailable("busy")

    monkeypatch.setattr(subject, "note_use", fail)
    assert caller_of_key(recorded()) is not None


def test_nobody_is_refused_for_good_when_the_record_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(digest: str) -> None:
        raise RecordUnavailable("busy")

    monkeypatch.setattr(subject, "find_key", fail)
    with pytest.raises(RecordUnavailable):  # an error is not kept by API Gateway, a refusal is
        authorized(authorizationToken=f"Bearer {make_key()}")


def test_listed_key_needs_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "find_key", lambda digest: pytest.fail("read"))
    assert caller_of_key("key-a") is not None


def test_keys_are_listed_the_oldest_first_with_those_that_are_revoked() -> None:
    moment = now()
    names = ["ann", "bob", "carl"]
    for age, name in enumerate(names):
        recorded(name=name, created_at=moment - timedelta(days=age))
    revoke_key(list_keys()[0].key_id)
    assert [record.name for record in list_keys()] == names[::-1]


@pytest.mark.parametrize("name", ["alice", "a.b-c_d", "alice@example.com", "x" * 64])
def test_key_is_made_in_this_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "a+b", "a=b", "a,b", "a:b", "https://issuer.example#ann", "a b", "ü", "x" * 65, "a\n"]
)
def test_no_key_is_made_in_a_name_that_lists_or_issuers_use(name: str) -> None:
    assert not is_name(name)
