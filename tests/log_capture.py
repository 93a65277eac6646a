"""The log of the functions while a test runs: its lines as they are, and metrics as CloudWatch reads them."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from stepagent.observe import logger

Line = dict[str, Any]


class Series(NamedTuple):
    """A value of a metric with its unit, under the dimensions of one set."""

    name: str
    unit: str
    dimensions: frozenset[tuple[str, str]]
    value: float


@contextmanager
def captured_log() -> Iterator[io.StringIO]:
    """The stream to which the log's lines go instead."""
    stream = io.StringIO()
    before = logger.registered_handler.setStream(stream)  # type: ignore[attr-defined]  # it is a StreamHandler
    try:
        yield stream
    finally:
        logger.registered_handler.setStream(before)  # type: ignore[attr-defined]
        logger.thread_safe_clear_keys()


def lines(stream: io.StringIO, message: str = "") -> list[Line]:
    """The lines so far, or those with this message."""
    found: list[Line] = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if message in ("", line["message"])]


def metrics(capsys: pytest.CaptureFixture[str]) -> list[Series]:
    """The metrics that were written since this was asked last."""
    written: list[Line] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [series for line in written if "_aws" in line for series in _series(line)]


def _series(line: Line) -> Iterator[Series]:
    for directive in line["_aws"]["CloudWatchMetrics"]:
        for metric in directive["Metrics"]:
            for names in directive["Dimensions"]:
                dimensions = frozenset((name, line[name]) for name in names if name != "service")
                yield Series(metric["Name"], metric["Unit"], dimensions, *line[metric["Name"]])
