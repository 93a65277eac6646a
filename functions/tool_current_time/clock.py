"""The time in a zone, by a name that need not be spelled quite right."""

import difflib
from collections import defaultdict
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

NOT_PLACES = {"Factory", "localtime", "posixrules"}  # what the host happens to be set to, or nothing at all
MAX_ECHO = 64  # characters


class UnknownTimezone(ValueError):
    """No zone, or more than one, has this name; the text names those meant most likely."""


def current_time(timezone: str, now: datetime) -> dict[str, str]:
    """Tells what clock and calendar show in a zone at `now`, an aware time.

    Raises:
        UnknownTimezone: The name fits no zone, or several.
    """
    zone = find_zone(timezone)
    local = now.astimezone(ZoneInfo(zone))
    return {
        "timezone": zone,
        "datetime": local.isoformat(timespec="seconds"),
        "date": local.date().isoformat(),
        "time": local.time().isoformat(timespec="seconds"),
        "weekday": local.strftime("%A"),
        "utc_offset": local.isoformat(timespec="seconds")[len("2000-01-01T00:00:00") :],
    }


def find_zone(name: str) -> str:
    """Finds the IANA name for such a name in any case, or for a city that gives its name to exactly one zone.

    Raises:
        UnknownTimezone: The name fits no zone, or several.
    """
    key = _key(name)
    if zone := _zones().get(key):
        return zone
    match _cities().get(key, []):
        case [zone]:
            return zone
        case []:
            raise UnknownTimezone(_advice(name[:MAX_ECHO]))
        case zones:
            raise UnknownTimezone(f"{name!r} is the name of several time zones: {', '.join(zones)}")


def _advice(name: str) -> str:
    known = {**{city: zones[0] for city, zones in _cities().items()}, **_zones()}
    close = dict.fromkeys(known[key] for key in difflib.get_close_matches(_key(name), known, n=3))
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    return f"{name!r} is not a time zone.{meant} Give an IANA name such as Europe/Berlin or UTC, not an offset."


def _key(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


@cache
def _zones() -> dict[str, str]:
    return {_key(zone): zone for zone in sorted(available_timezones() - NOT_PLACES)}


@cache
def _cities() -> dict[str, list[str]]:
    """The zones by the last part of their names, without Etc, where GMT+2 is two hours behind UTC, not ahead."""
    cities: dict[str, list[str]] = defaultdict(list)
    for key, zone in _zones().items():
        region, _, city = key.rpartition("/")
        if region and region != "etc":
            cities[city].append(zone)
    return dict(cities)
