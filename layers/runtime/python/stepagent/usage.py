"""What a model's work is counted in."""

from decimal import Decimal

from stepagent.models import Frozen


class Usage(Frozen):
    """Tokens as the provider counted them; zero where it did not say, which `complete` tells.

    `cost_usd` is what they cost in US dollars, None where a price is not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    complete: bool = True
    cost_usd: Decimal | None = Decimal(0)

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def known_tokens(self) -> int | None:
        """The total; None where the provider has told nothing at all."""
        return self.total_tokens if self.complete or self.total_tokens else None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            complete=self.complete and other.complete,
            cost_usd=_sum(self.cost_usd, other.cost_usd),
        )


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """What is not known stays unknown in a sum."""
    return None if one is None or other is None else one + other
