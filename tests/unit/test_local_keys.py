"""`keys create|list|revoke` on the command line, with the record in memory."""

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest
from typer.testing import CliRunner, Result

from local import keys as subject
from local.cli import app
from stepagent.api.keys import caller_of_key
from stepagent.runs import Principal, RunId
from stepagent.settings import settings
from stepagent.spending import KeyBudget, UsedKey
from stepagent.store.keys import count_spent, list_keys
from stepagent.store.table import transact
from stepagent.usage import Usage
from tests.builders import a_run
from tests.tables import empty_tables, tables_in_memory


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def entered(_tables: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stacks that were entered. The tables in memory are those of each."""
    empty_tables()
    stacks: list[str] = []
    monkeypatch.setattr(subject, "enter", stacks.append)
    monkeypatch.delenv("STEPAGENT_STACK", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return stacks


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["keys", *words])


def test_key_that_is_made_is_admitted_and_is_all_of_the_output(entered: list[str]) -> None:
    key = run("create", "alice", "--scope", "catalog", "--stack", "prod").stdout.strip()
    caller = caller_of_key(key)
    assert caller is not None
    assert (caller.principal, set(caller.scopes), entered) == (Principal("alice"), {"catalog"}, ["prod"])


def test_key_has_the_budget_that_it_is_made_with() -> None:
    words = ("--max-cost-usd", "2.50", "--max-total-tokens", "100", "--per", "day")
    caller = caller_of_key(run("create", "alice", *words).stdout.strip())
    assert caller is not None
    assert caller.used_key is not None
    assert caller.used_key.budget == KeyBudget(per="day", max_cost_usd=Decimal("2.50"), max_total_tokens=100)


def test_key_expires_after_the_days_that_it_is_made_for() -> None:
    run("create", "alice", "--expires-in-days", "30")
    [record] = list_keys()
    assert record.expires_at
    assert round((record.expires_at - record.created_at) / timedelta(days=1)) == 30


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a=b"], "Name whoever"),
        ([""], "such as NAME=alice"),
        (["alice", "--scope", "catalogue"], "no scope catalogue"),
        (["alice", "--max-cost-usd", "0"], "max_cost_usd"),
        (["alice", "--max-cost-usd", "cheap"], "max_cost_usd"),
        (["alice", "--max-total-tokens", "5", "--per", "year"], "per"),
        (["alice", "--entry", "--expires-in-days", "3"], "neither budget nor end"),
    ],
)
def test_no_key_is_made_when_its_terms_are_none(words: list[str], why: str) -> None:
    result = run("create", *words)
    assert (result.exit_code, list_keys()) == (1, [])
    assert why in result.stderr
    assert "sk-sa-" not in result.output


def test_entry_of_the_parameter_admits_its_key_and_stores_nothing(
    entered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("create", "alice", "--scope", "catalog", "--entry")
    found = re.search(r"ApiKeyHashes: (\S+)", result.stderr)
    assert found
    monkeypatch.setenv("API_KEY_HASHES", found[1])
    settings.cache_clear()
    caller = caller_of_key(result.stdout.strip())
    assert caller is not None
    assert (caller.principal, set(caller.scopes)) == (Principal("alice"), {"catalog"})
    assert not list_keys()
    assert not entered


def test_list_shows_what_was_spent_and_no_key() -> None:
    key = run("create", "alice", "--max-cost-usd", "5").stdout.strip()
    [record] = list_keys()
    started = a_run(run_id=RunId("run_s_1"), used_key=UsedKey(key_id=record.key_id, budget=record.budget))
    transact(count_spent(started, Usage(input_tokens=7, cost_usd=Decimal("1.234"))))
    shown = run("list").stdout
    assert all(text in shown for text in (record.key_id, "alice", "valid", "5 USD a month", "1.23 USD, 7 tokens"))
    assert key not in shown
    assert record.digest not in shown


def test_key_is_refused_when_it_is_revoked_by_its_id() -> None:
    key = run("create", "alice").stdout.strip()
    [record] = list_keys()
    result = run("revoke", record.key_id)
    assert (result.exit_code, caller_of_key(key)) == (0, None)
    assert "revoked" in run("list").stdout


def test_revoking_says_so_when_there_is_no_such_key() -> None:
    result = run("revoke", "key_0")
    assert result.exit_code == 1
    assert "There is no key 'key_0'." in result.stderr


def test_command_says_what_to_do_when_no_stack_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("local.emulator.find", lambda folder: None)
    result = run("list")
    assert result.exit_code == 1
    assert "make up" in result.stderr
