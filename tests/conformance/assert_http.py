"""What a case asserts of our HTTP answers and streams."""

import re
from typing import Any

from tests.conformance.assert_texts import listed
from tests.conformance.evidence import Answer, Evidence
from tests.conformance.people import STILL_OPEN

Complaint = str | None

_ERROR_FIELDS = {"message", "type", "param", "code"}


def statuses(seen: Evidence) -> list[int]:
    return [answer.status for answer in seen.answers]


def http_status(expected: int, seen: Evidence) -> Complaint:
    return http_status_in([expected], seen)


def http_status_in(expected: list[int], seen: Evidence) -> Complaint:
    if not seen.answers:
        return "nothing answered over HTTP"
    wrong = [answer for answer in seen.answers if answer.status not in expected]
    return f"status {wrong[0].status}: {wrong[0].text[:120]}" if wrong else None


def http_statuses(expected: list[int], seen: Evidence) -> Complaint:
    """A 400 also stands for a more precise refusal, if that named the field and left the question open."""
    found = [400 if answer.label == STILL_OPEN else answer.status for answer in seen.answers]
    return None if expected in (found, statuses(seen)) else f"statuses {statuses(seen)}"


def variants(expected: Any, seen: Evidence) -> Complaint:
    """The status of each variant, in order or by its name."""
    if isinstance(expected, dict):
        found = {answer.label: answer.status for answer in seen.answers}
        wrong = [name for name, status in expected.items() if found.get(name) != status]
        return f"{wrong[0]}: {found.get(wrong[0])}" if wrong else None
    found_list = [answer.status for answer in seen.answers if answer.label != "base"]
    return None if found_list == list(expected) else f"statuses {found_list}"


def error_shape(expected: bool, seen: Evidence) -> Complaint:
    errors = [answer for answer in seen.answers if answer.status >= 400]
    wrong = [answer for answer in errors if not _is_shaped(answer)]
    if not errors:
        return "no answer is an error"
    return f"error {(wrong or errors)[0].text[:120]}" if bool(wrong) == expected else None


def _is_shaped(answer: Answer) -> bool:
    body = answer.body
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and set(error) >= _ERROR_FIELDS


def usage_chunks(expected: list[int], seen: Evidence) -> Complaint:
    found = [sum(_is_usage(chunk) for chunk in answer.chunks) for answer in seen.answers]
    misplaced = [answer for answer in seen.answers if any(map(_is_usage, answer.chunks[:-1]))]
    if misplaced:
        return "a usage chunk stands before the last chunk"
    return None if found == listed_numbers(expected) else f"usage chunks {found}"


def listed_numbers(expected: Any) -> list[int]:
    return [expected] if isinstance(expected, int) else list(expected)


def _is_usage(chunk: Any) -> bool:
    return isinstance(chunk, dict) and chunk.get("choices") == [] and bool(chunk.get("usage"))


def sse_contains(expected: Any, seen: Evidence) -> Complaint:
    streams = "\n".join(answer.text for answer in seen.answers)
    missing = [text for text in listed(expected) if text not in streams]
    return f"no {missing[0]!r} in the stream" if missing else None


def sse_excludes(expected: Any, seen: Evidence) -> Complaint:
    streams = "\n".join(answer.text for answer in seen.answers)
    found = [text for text in listed(expected) if text in streams]
    return f"{found[0]!r} in the stream" if found else None


def sse_line_pattern(expected: str, seen: Evidence) -> Complaint:
    lines = [line for answer in seen.answers for line in re.split(r"\r\n|\r|\n", answer.text)]
    wrong = [line for line in lines if line and not re.search(expected, line)]
    return f"line {wrong[0][:120]!r}" if wrong else None if any(lines) else "there was no stream"


def _chunks(seen: Evidence) -> list[list[Any]]:
    return [[c for c in answer.chunks if isinstance(c, dict)] for answer in seen.answers]


def same_across_chunks(expected: list[str], seen: Evidence) -> Complaint:
    for chunks in _chunks(seen):
        if not chunks:
            return "no chunks"
        for name in expected:
            if len({str(chunk.get(name)) for chunk in chunks}) != 1 or chunks[0].get(name) is None:
                return f"{name} is not the same in all chunks"
    return None


def role_only_first(expected: bool, seen: Evidence) -> Complaint:
    for chunks in _chunks(seen):
        deltas = [choice.get("delta", {}) for chunk in chunks for choice in chunk.get("choices", [])]
        roles = [n for n, delta in enumerate(deltas) if "role" in delta]
        if (roles == [0]) != expected:
            return f"the role stands in deltas {roles}"
    return None


def all_have_header(expected: str, seen: Evidence) -> Complaint:
    wrong = [n for n, answer in enumerate(seen.answers, 1) if expected.lower() not in answer.headers]
    said = [f"{n} ({seen.answers[n - 1].status})" for n in wrong]
    return f"no {expected} on answer {', '.join(said)}" if wrong else None if seen.answers else "no answers"


def handler_raises(expected: bool, seen: Evidence) -> Complaint:
    raised = [answer for answer in seen.answers if answer.status == 0]
    words = seen.facts.get("raised") or (raised[0].text if raised else "")
    return None if bool(words) == expected else f"the handler raised {words or 'nothing'}"
