"""What a case asserts of calls: which ran, with what, how often, and what came of them."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Json
from tests.conformance.evidence import Evidence

Complaint = str | None


def canonical(value: Any) -> str:
    """Equal for equal JSON: 2 is not 2.0, and True is not 1."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def pairs(seen: Evidence) -> list[list[Any]]:
    return [[call.name, call.arguments] for call in seen.executed]


def calls(expected: Any, seen: Evidence) -> Complaint:
    found = pairs(seen)
    return None if canonical(found) == canonical(expected) else f"executed {canonical(found)}"


def calls_each(expected: list[Any], seen: Evidence) -> Complaint:
    wanted = expected[seen.position]
    if not wanted:
        return calls([], seen)
    return calls([wanted] if isinstance(wanted[0], str) else wanted, seen)


def executed(expected: list[Any], seen: Evidence) -> Complaint:
    """Calls by their pairs, names or ids."""
    if all(isinstance(each, list) for each in expected):
        return calls(expected, seen)
    found = [call.wire_id if call.wire_id in expected else call.name for call in seen.executed]
    return None if found == expected else f"executed {found}"


def executed_excludes(expected: list[str], seen: Evidence) -> Complaint:
    ran = [call for call in seen.executed if call.wire_id in expected or call.name in expected]
    return f"{ran[0].wire_id or ran[0].name} ran" if ran else None


def executions(expected: dict[str, int], seen: Evidence) -> Complaint:
    found = Counter(call.name for call in seen.executed)
    wrong = [f"{name} ran {found[name]} times" for name, times in expected.items() if found[name] != times]
    return ", ".join(wrong) or None


def tool_executions_max(expected: int, seen: Evidence) -> Complaint:
    return f"{len(seen.executed)} executions" if len(seen.executed) > expected else None


def tool_executions_each(expected: int, seen: Evidence) -> Complaint:
    found = Counter(call.raw for call in seen.executed)
    wrong = [times for times in found.values() if times != expected]
    return f"a call was executed {wrong[0]} times" if wrong else None


def forbidden_calls(expected: list[Any], seen: Evidence) -> Complaint:
    """A pair must not be among the calls; a list of pairs must not be the list of calls, nor all among them."""
    found = [canonical(pair) for pair in pairs(seen)]
    for each in expected:
        listed = [each] if each and isinstance(each[0], str) else each
        if listed and all(canonical(pair) in found for pair in listed):
            return f"executed {canonical(listed)}"
    return None


def forbidden_in_args(expected: list[str], seen: Evidence) -> Complaint:
    for call in seen.executed:
        for text in texts_in(call.arguments):
            if found := [each for each in expected if each in text]:
                return f"{call.name} was given {found[0]!r} in {text!r}"
    return None


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(inner)
    if isinstance(value, dict):
        yield from map(str, value)


def exact_digits(expected: str, seen: Evidence) -> Complaint:
    if not any(expected in call.raw for call in seen.executed):
        return f"the tool was not given {expected}"
    later = json.dumps(seen.last_messages, ensure_ascii=False)
    return None if not seen.last_messages or expected in later else "the replayed history has other digits"


def tool_results(expected: list[Json], seen: Evidence) -> Complaint:
    """Results in the order of the calls; the model is told of an error by the text of its message."""
    found = [(wire_id_of(seen, call.call_id), call.result.is_error) for call in seen.calls if call.result]
    if len(found) != len(expected):
        return f"{len(found)} results"
    for (wire_id, is_error), wanted in zip(found, expected, strict=True):
        if "id" in wanted and wire_id != wanted["id"]:
            return f"the result of {wire_id} where {wanted['id']} stands"
        if "error" in wanted and is_error != wanted["error"]:
            return f"{wire_id}: error is {is_error}"
        if "text" in wanted and wanted["text"] not in json.dumps(seen.tool_messages, ensure_ascii=False):
            return f"no result {wanted['text']!r}"
    return None


def wire_id_of(seen: Evidence, call_id: str) -> str:
    ids = {call.call_id: call.provider_id for reply in seen.replies for call in reply.calls}
    return ids.get(call_id) or call_id  # type: ignore[call-overload]  # call ids are strings


def runs(expected: int, seen: Evidence) -> Complaint:
    return None if seen.runs == expected else f"{seen.runs} runs"


def exactly_executed(wanted: Any, seen: Evidence) -> bool:
    return bool(wanted) and calls(wanted, seen) is None


def any_error_result(seen: Evidence) -> bool:
    return any(call.result and call.result.is_error for call in seen.calls) or "refused" in seen.facts
