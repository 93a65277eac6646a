"""What is measured, and how: spans of time on this machine's clock, and what of them was neither model nor tool.

A turn is one request to the model. Its tool multiplies two numbers, which takes microseconds, so that all time between
the model's replies is the runtime's own.
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Span(NamedTuple):
    """Two moments, in seconds since the epoch."""

    began: float
    ended: float


class System(Protocol):
    """Something that holds conversations: this product, or what people would pick instead."""

    name: str
    kept: str  # what it has written to disk when a turn is over

    def ask(self, session: str, question: str) -> Span:
        """Says something in a session and waits: from the call until it is answered, and what is kept of it written."""
        ...


class Asked(NamedTuple):
    """One question of a conversation: when it was asked and answered, and when the model spoke meanwhile."""

    whole: Span
    replies: Sequence[Span]


def gaps_s(asked: Asked) -> list[float]:
    """The time before, between and behind the model's replies, in seconds; one more than there are replies."""
    starts = [*(reply.began for reply in asked.replies), asked.whole.ended]
    ends = [asked.whole.began, *(reply.ended for reply in asked.replies)]
    return [start - end for start, end in zip(starts, ends, strict=True)]


def overhead_ms(conversation: Sequence[Asked]) -> float:
    """Wall time less the model's, for each request to the model."""
    return 1000 * sum(sum(gaps_s(asked)) for asked in conversation) / sum(len(asked.replies) for asked in conversation)


def by_turn_ms(conversation: Sequence[Asked]) -> list[float]:
    """What each turn cost: of several questions each whole, of one question the time behind each reply but the last."""
    if len(conversation) > 1 or len(conversation[0].replies) == 1:
        return [1000 * sum(gaps_s(asked)) for asked in conversation]
    return [1000 * gap for gap in gaps_s(conversation[0])[1:-1]]


def slope(values: Sequence[float]) -> float:
    """How much a value grows from one turn to the next, by least squares; 0 for a single one."""
    return statistics.linear_regression(range(len(values)), values).slope if len(values) > 1 else 0.0


def medians(runs: Sequence[Sequence[float]]) -> list[float]:
    """The median of each place over all runs."""
    return [statistics.median(values) for values in zip(*runs, strict=True)]
