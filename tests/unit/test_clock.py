"""The clock of the tool `current_time`."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from stepagent.tools import ToolError
from tests.functions import load

clock = load("tool_current_time", "clock")
current_time: Callable[[str, datetime], dict[str, str]] = clock.current_time
UnknownTimezone: type[ValueError] = clock.UnknownTimezone

NOW = datetime(2026, 3, 1, 22, 30, 15, 999, tzinfo=UTC)  # a Sunday


def test_current_time_tells_clock_and_calendar_of_the_zone() -> None:
    assert current_time("Asia/Tokyo", NOW) == {
        "timezone": "Asia/Tokyo",
        "datetime": "2026-03-02T07:30:15+09:00",
        "date": "2026-03-02",
        "time": "07:30:15",
        "weekday": "Monday",
        "utc_offset": "+09:00",
    }


@pytest.mark.parametrize(
    ("zone", "month", "offset"),
    [
        ("UTC", 7, "+00:00"),
        ("Europe/Berlin", 7, "+02:00"),
        ("Europe/Berlin", 1, "+01:00"),
        ("Asia/Kolkata", 1, "+05:30"),
    ],
)
def test_current_time_knows_the_season(zone: str, month: int, offset: str) -> None:
    told = current_time(zone, datetime(2026, month, 15, 12, tzinfo=UTC))
    assert (told["utc_offset"], told["datetime"][-6:]) == (offset, offset)


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Tokyo", "Asia/Tokyo"),
        ("tokyo ", "Asia/Tokyo"),
        ("new york", "America/New_York"),
        ("utc", "UTC"),
        ("europe/berlin", "Europe/Berlin"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
    ],
)
def test_current_time_accepts_any_case_and_a_city(name: str, zone: str) -> None:
    assert current_time(name, NOW)["timezone"] == zone


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Tokio", "Did you mean Asia/Tokyo"),
        ("Europe/Berln", "Did you mean Europe/Berlin"),
        ("louisville", "America/Kentucky/Louisville, America/Louisville"),
        ("GMT+2", "IANA name"),
        ("UTC+9", "not an offset"),
        ("+02:00", "not an offset"),
        ("", "IANA name"),
        ("../../etc/passwd", "is not a time zone"),
        ("/etc/localtime", "is not a time zone"),
        ("localtime", "is not a time zone"),
        ("Europe", "is not a time zone"),
        ("\0", "is not a time zone"),
        ("x" * 10_000, "^'x{64}' is not"),
    ],
)
def test_current_time_names_likely_zones_when_the_name_is_unknown(name: str, advice: str) -> None:
    with pytest.raises(UnknownTimezone, match=advice):
        current_time(name, NOW)


def test_current_time_hands_bad_zones_to_the_model() -> None:
    handler = load("tool_current_time", "app").handler
    assert handler.run({})["timezone"] == "UTC"
    with pytest.raises(ToolError, match="Asia/Tokyo"):
        handler.run({"timezone": "Tokio"})
