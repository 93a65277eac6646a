"""List prices, what is assumed beside them, and the bill that they make of amounts."""

from decimal import Decimal
from pathlib import Path

import yaml
from pydantic import Field

from stepagent.models import Frozen

PRICES = Path(__file__).with_name("prices.yaml")

Amounts = dict[str, float]  # by the names of the prices


class Price(Frozen):
    """What a number of something costs, and the page that says so."""

    usd: Decimal
    per: int = Field(gt=0)
    source: str


class Assumptions(Frozen):
    """What cannot be measured here; each is explained in `prices.yaml`."""

    tool_s: float
    think_gb: float
    function_gb: float
    batch_gb: float
    loop_gb: float
    loop_longest_s: float
    reply_s: float
    pollers: int
    poll_s: float
    turn_log_bytes: int
    call_log_bytes: int


class PriceList(Frozen):
    prices: dict[str, Price]
    assumptions: Assumptions


def load_prices() -> PriceList:
    return PriceList.model_validate(yaml.safe_load(PRICES.read_text()))


def bill(used: Amounts, prices: dict[str, Price], times: int = 1000) -> Amounts:
    """US dollars for so many times as much, by price; what is not used is left out."""
    return {
        name: float(round(prices[name].usd * Decimal(str(amount)) * times / prices[name].per, 5))
        for name, amount in used.items()
        if amount
    }


def billed(used: dict[str, Amounts], prices: dict[str, Price], times: int) -> list[dict[str, object]]:
    """One row for each thing: its name, its amounts, and what so many of it cost."""
    return [
        {
            "name": name,
            "amounts": {price: round(amount, 3) for price, amount in amounts.items()},
            "usd": bill(amounts, prices, times),
        }
        for name, amounts in used.items()
    ]
