"""The base of every data class here."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable, and strict about unknown fields, so that a typing mistake in a catalog row is found."""

    model_config = ConfigDict(frozen=True, extra="forbid")
