"""The base of every data class here."""

from pydantic import BaseModel, ConfigDict, ValidationError


def problems(error: ValidationError) -> str:
    """What is wrong and where, without what was given: that may be a secret."""
    each = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'it'}: {problem['msg']}" for problem in each[:5])


class Frozen(BaseModel):
    """Immutable, and strict about unknown fields, so that a typing mistake in a catalog row is found.

    What does not fit is not quoted: errors end in logs, and values are payloads.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
