"""What a model's work is counted in."""

from stepagent.models import Frozen


class Usage(Frozen):
    """Tokens as the provider counted them; zero where it did not say, which `complete` tells."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    complete: bool = True

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            complete=self.complete and other.complete,
        )
