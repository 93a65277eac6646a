"""The time of day, in one place, so that every stored time is aware and in UTC."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)
