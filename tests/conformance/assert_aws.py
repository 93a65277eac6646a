"""What a case asserts at the boundaries of AWS, by the facts that its situation came to."""

import re
from typing import Any

from tests.conformance.assert_http import statuses
from tests.conformance.cases import Json, Skipped
from tests.conformance.evidence import Evidence

Complaint = str | None


def fact(name: str, seen: Evidence) -> Any:
    if name not in seen.facts:
        raise Skipped(f"this situation shows no {name.replace('_', ' ')} without AWS")
    return seen.facts[name]


def state_bytes_max(expected: int, seen: Evidence) -> Complaint:
    found = fact("state_bytes", seen)
    return f"a state holds {found} bytes" if found > expected else None


def run_closed_on(expected: str, seen: Evidence) -> Complaint:
    found = fact("closed_on", seen)
    return None if expected in found else f"runs are closed on {found}"


def lint_error(expected: bool, seen: Evidence) -> Complaint:
    if own := fact("own_lint", seen):
        return f"the product's own definition: {own[0]}"
    found = fact("lint", seen)
    return None if bool(found) == expected else f"the check finds {found or 'nothing'}"


def retry_table(expected: dict[str, Any], seen: Evidence) -> Complaint:
    found = fact("handling", seen)
    for error, wanted in expected.items():
        words = str(wanted).lower()
        way = "retry" if "retry" in words and not re.search(r"\b(no|not|never)\b", words) else "catch"
        if found.get(error) != way:
            return f"{error}: {found.get(error)}"
    return None


def max_events(expected: int, seen: Evidence) -> Complaint:
    found = fact("events", seen)
    return f"{fact('admitted_turns', seen)} turns are admitted, which take {found} events" if found > expected else None


def batch_item_failures(expected: list[str], seen: Evidence) -> Complaint:
    found = fact("batch_item_failures", seen)
    return None if found == expected else f"reported {found}"


def name_pattern(expected: str, seen: Evidence) -> Complaint:
    found = fact("execution_name", seen)
    return None if re.search(expected, found) else f"name {found!r}"


def round_trip_equal(expected: bool, seen: Evidence) -> Complaint:
    return None if fact("round_trip", seen) == expected else "what is read is not what was written"


def item_bytes_max(expected: int, seen: Evidence) -> Complaint:
    found = fact("item_bytes", seen)
    return f"an item has {found} bytes" if found > expected else None


def messages_loaded_all(expected: bool, seen: Evidence) -> Complaint:
    return None if fact("loaded_all", seen) == expected else "not every message was read"


def state_output(expected: Json, seen: Evidence) -> Complaint:
    """No state of ours can meet an absent field: what is read is always written, null where it is not known."""
    unwritten = fact("unwritten", seen)
    return f"the definition reads {', '.join(unwritten)}, which is not always written" if unwritten else None


def state_output_contains(expected: Any, seen: Evidence) -> Complaint:
    return state_output(expected, seen)


def variant_statuses(expected: list[int], seen: Evidence) -> Complaint:
    """The base event's status first, then those of the variants that are errors."""
    first, *others = statuses(seen) or [0]
    found = [first, *(status for status in others if status >= 400)]
    return None if found == expected else f"statuses {found}"
