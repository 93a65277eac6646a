"""Where the result of a run goes, as its request names it."""

from typing import Self

from pydantic import Field, model_validator

from stepagent.models import Frozen

_MAX_CHARS = 2_048


class ReplyTo(Frozen):
    """Exactly one of a queue's URL, the beginning of an object's key, and the URL of a webhook.

    `s3_prefix` is a prefix below `replies/` in the stack's own bucket, or `s3://bucket/prefix` for another one.
    """

    queue_url: str | None = Field(None, min_length=1, max_length=_MAX_CHARS)
    s3_prefix: str | None = Field(None, min_length=1, max_length=_MAX_CHARS)
    webhook: str | None = Field(None, min_length=1, max_length=_MAX_CHARS)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if len(self.named) != 1:
            raise ValueError("name exactly one of queue_url, s3_prefix and webhook")
        return self

    @property
    def named(self) -> list[str]:
        """The fields that are given: one."""
        return [name for name in ("queue_url", "s3_prefix", "webhook") if getattr(self, name) is not None]
