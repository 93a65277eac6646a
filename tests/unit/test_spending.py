"""What may be spent with a key: periods, what is left, and counts that stay exact when many write at once."""

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from stepagent.agents import Limits
from stepagent.api import beginning
from stepagent.errors import BudgetSpent
from stepagent.runs import Run, RunId
from stepagent.spending import KeyBudget, Period, Spent, UsedKey, period_of, renews_at, within_budget
from stepagent.store import keys as store
from stepagent.store.keys import count_spent, read_spent
from stepagent.store.table import query, transact
from stepagent.usage import Usage
from tests.builders import NOON, a_run
from tests.functions import ROOT
from tests.tables import empty_tables, tables_in_memory


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("per", "moment", "name", "renewal"),
    [
        ("day", "2030-01-31T23:59:59.999999", "2030-01-31", "2030-02-01"),
        ("day", "2030-12-31T00:00:00", "2030-12-31", "2031-01-01"),
        ("month", "2030-01-01T00:00:00", "2030-01", "2030-02-01"),
        ("month", "2028-02-29T12:00:00", "2028-02", "2028-03-01"),
        ("month", "2030-12-31T23:59:59", "2030-12", "2031-01-01"),
    ],
)
def test_period_has_a_name_and_an_end(per: Period, moment: str, name: str, renewal: str) -> None:
    assert (period_of(per, at(moment)), renews_at(per, at(moment))) == (name, at(renewal))


@pytest.mark.parametrize(
    "fields",
    [{}, {"max_cost_usd": 0}, {"max_cost_usd": -1}, {"max_total_tokens": 0}, {"max_cost_usd": 1, "per": "year"}],
)
def test_budget_is_refused_when_it_bounds_nothing(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        KeyBudget.model_validate({"per": "day", **fields})


MONEY = KeyBudget(per="month", max_cost_usd=Decimal(5))
TOKENS = KeyBudget(per="day", max_total_tokens=1_000)


@pytest.mark.parametrize(
    ("own", "bounded"),
    [(None, Decimal(2)), (Decimal(1), Decimal(1)), (Decimal(9), Decimal(2))],
)
def test_run_may_cost_what_is_left_and_no_more_than_its_agent_may(own: Decimal | None, bounded: Decimal) -> None:
    limits = within_budget(Limits(max_cost_usd=own), MONEY, Spent(10, Decimal(3)), NOON)
    assert (limits.max_cost_usd, limits.max_total_tokens) == (bounded, Limits().max_total_tokens)


def test_run_may_use_the_tokens_that_are_left() -> None:
    assert within_budget(Limits(), TOKENS, Spent(400, None), NOON).max_total_tokens == 600


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (MONEY, Spent(0, Decimal(5))),
        (MONEY, Spent(0, Decimal("5.01"))),
        (MONEY, Spent(0, None)),
        (TOKENS, Spent(1_000, Decimal(0))),
        (KeyBudget(per="day", max_cost_usd=Decimal(1), max_total_tokens=10), Spent(10, Decimal(0))),
        (KeyBudget(per="day", max_cost_usd=Decimal(1), max_total_tokens=10), Spent(0, Decimal(1))),
    ],
)
def test_run_is_refused_when_nothing_is_left(budget: KeyBudget, spent: Spent) -> None:
    with pytest.raises(BudgetSpent):
        within_budget(Limits(), budget, spent, NOON)


def test_refusal_names_the_budget_and_when_it_renews() -> None:
    with pytest.raises(BudgetSpent, match=r"\(5 USD a month\).*2030-02-01T00:00:00Z") as refused:
        within_budget(Limits(), MONEY, Spent(0, Decimal(5)), NOON)
    assert (refused.value.http_status, refused.value.error_code) == (429, "budget_spent")


# ---- counts in the record


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def _empty(_tables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    empty_tables()
    monkeypatch.setattr(store, "now", lambda: NOON)


def run_with(budget: KeyBudget | None, run_id: str = "run_abc_1", key_id: str = "key_1") -> Run:
    return a_run(run_id=RunId(run_id), used_key=UsedKey(key_id=key_id, budget=budget))


def spend(run: Run, **usage: Any) -> None:
    transact(count_spent(run, Usage(**usage)))


def test_count_of_a_key_is_exact_when_many_runs_end_their_turns_at_once() -> None:
    runs = [run_with(MONEY, f"run_s{number}_1") for number in range(40)]
    turns = [run for run in runs for _ in range(5)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda run: spend(run, input_tokens=3, output_tokens=2, cost_usd=Decimal("0.0001")), turns))
    assert read_spent("key_1", "month", NOON) == Spent(1_000, Decimal("0.0200"))


def test_cost_of_a_key_is_unknown_when_that_of_one_turn_is() -> None:
    spend(run_with(MONEY), input_tokens=1)
    spend(run_with(MONEY, "run_other_1"), input_tokens=1, cost_usd=None)
    assert read_spent("key_1", "month", NOON) == Spent(2, None)


def test_keys_and_periods_are_counted_apart() -> None:
    spend(run_with(MONEY), input_tokens=1)
    spend(run_with(TOKENS, key_id="key_2"), input_tokens=20)
    assert read_spent("key_1", "month", NOON).total_tokens == 1
    assert read_spent("key_2", "day", NOON).total_tokens == 20
    assert read_spent("key_2", "day", at("2030-01-02T00:00:00")) == Spent()


def test_count_is_kept_for_more_than_a_year() -> None:
    spend(run_with(MONEY), input_tokens=1)
    [item] = query("SPENT#key_1", "2030-01")
    assert int(item["forget_at"]) > at("2031-01-31T00:00:00").timestamp()


@pytest.mark.parametrize(
    "run", [a_run(), run_with(None)], ids=["started without a key", "with a key that has no budget"]
)
def test_nothing_is_counted_when_no_budget_asks_for_it(run: Run) -> None:
    assert count_spent(run, Usage(input_tokens=1)) == []


def test_nothing_is_counted_when_nothing_was_spent() -> None:
    assert count_spent(run_with(MONEY), Usage()) == []


# ---- whoever starts runs


def test_agent_is_bounded_by_what_is_left_to_spend_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "now", lambda: NOON)
    spend(run_with(TOKENS), input_tokens=990)
    agent = beginning._within_budget(a_run().agent, UsedKey(key_id="key_1", budget=TOKENS))
    assert agent.limits.max_total_tokens == 10


def test_agent_is_as_it_was_when_the_key_has_no_budget() -> None:
    agent = a_run().agent
    assert beginning._within_budget(agent, UsedKey(key_id="key_1")) is agent


def _calls_of_say() -> Iterator[tuple[str, set[str | None]]]:
    for folder in ("functions", "layers/runtime/python/stepagent"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and any(
                    isinstance(name, ast.Name) and name.id == "say" for name in (node.func, *node.args)
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", {keyword.arg for keyword in node.keywords}


@pytest.mark.parametrize(("place", "keywords"), list(_calls_of_say()))
def test_whoever_starts_a_run_for_a_request_says_which_key_pays(place: str, keywords: set[str | None]) -> None:
    assert "used_key" in keywords
