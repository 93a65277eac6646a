"""What may be spent with a key in a day or a month, and when that begins anew. Pure."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from stepagent.agents import Limits
from stepagent.errors import BudgetSpent
from stepagent.models import Frozen

Period = Literal["day", "month"]


class KeyBudget(Frozen):
    """What runs started with one key may spend together in each day or month (UTC): money, tokens, or both."""

    per: Period
    max_cost_usd: Decimal | None = Field(None, gt=0)
    max_total_tokens: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.max_cost_usd is None and self.max_total_tokens is None:
            raise ValueError("a budget bounds money (max_cost_usd), tokens (max_total_tokens), or both")
        return self

    def __str__(self) -> str:
        money = f"{self.max_cost_usd} USD" if self.max_cost_usd is not None else ""
        tokens = f"{self.max_total_tokens} tokens" if self.max_total_tokens is not None else ""
        return f"{' and '.join(filter(None, (money, tokens)))} a {self.per}"


class UsedKey(Frozen):
    """The key that a request came with, by its id, and what may be spent with it."""

    key_id: str
    budget: KeyBudget | None = None


class Spent(NamedTuple):
    """What was spent with a key in one period. `cost_usd` is None where a part of it is not known."""

    total_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)


def period_of(per: Period, moment: datetime) -> str:
    """The name of the period that a moment (UTC) lies in: `2030-01-31` or `2030-01`."""
    return moment.strftime("%Y-%m-%d" if per == "day" else "%Y-%m")


def renews_at(per: Period, moment: datetime) -> datetime:
    """When the period after that of `moment` (UTC) begins."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    # No month has more than 31 days, so that many after its first always lie in the next one.
    return midnight + timedelta(days=1) if per == "day" else (midnight.replace(day=1) + timedelta(31)).replace(day=1)


def within_budget(limits: Limits, budget: KeyBudget, spent: Spent, moment: datetime) -> Limits:
    """An agent's limits, with no more tokens and money than are left of a key's budget.

    Raises:
        BudgetSpent: nothing is left; the message says until when. A cost that is not known counts as spent.
    """
    bounds: dict[str, int | Decimal] = {}
    if budget.max_total_tokens is not None:
        tokens = budget.max_total_tokens - spent.total_tokens
        bounds["max_total_tokens"] = min(tokens, limits.max_total_tokens or tokens)
    if budget.max_cost_usd is not None:
        money = Decimal(0) if spent.cost_usd is None else budget.max_cost_usd - spent.cost_usd
        bounds["max_cost_usd"] = min(money, limits.max_cost_usd or money)
    if min(bounds.values()) <= 0:
        renewal = renews_at(budget.per, moment).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise BudgetSpent(f"The budget of this key ({budget}) is spent. It renews at {renewal}.")
    return limits.model_copy(update=bounds)
