"""What a case asserts of the requests that went to the model: pairing, ids, roles, tools and waits."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tests.conformance.assert_texts import listed
from tests.conformance.cases import Json
from tests.conformance.evidence import Evidence

Complaint = str | None

_TOO_SOON_S = 0.05  # two clocks never agree
_NOTE = re.compile(r"cut|truncat|shorten|omitted|…|\.\.\.", re.IGNORECASE)


def model_requests(expected: int, seen: Evidence) -> Complaint:
    return None if len(seen.requests) == expected else f"{len(seen.requests)} model requests"


def model_requests_max(expected: int, seen: Evidence) -> Complaint:
    return f"{len(seen.requests)} model requests" if len(seen.requests) > expected else None


def retries(expected: int, seen: Evidence) -> Complaint:
    repeated = sum(a["messages"] == b["messages"] for a, b in pairwise(seen.bodies))
    found = int(seen.facts.get("retries", repeated))
    return None if found == expected else f"{found} retries"


def min_wait_s(expected: Any, seen: Evidence) -> Complaint:
    times = [asked.at for asked in seen.requests]
    waits = [later - earlier for earlier, later in pairwise(times)]
    wanted = list(expected) if isinstance(expected, list) else [expected]
    if len(waits) < len(wanted):
        return f"{len(waits)} waits"
    short = [w for w, least in zip(waits, wanted, strict=False) if w < float(least) - _TOO_SOON_S]
    return f"waited {short[0]:.2f} s only" if short else None


def invariant(expected: str, seen: Evidence) -> Complaint:
    if expected != "pairing":
        return f"unknown invariant {expected!r}"
    for number, body in enumerate(seen.bodies, 1):
        if fault := _unpaired(body.get("messages", [])):
            return f"request {number}: {fault}"
    return None


def _unpaired(messages: Sequence[Json]) -> str:
    place = 0
    while place < len(messages):
        message = messages[place]
        if message["role"] in ("tool", "function"):
            return f"message {place} answers no call before it"
        wanted = ids_of(message)
        answers = messages[place + 1 : place + 1 + len(wanted)]
        if [each.get("tool_call_id", each.get("name")) for each in answers] != wanted:
            return f"message {place} asks {wanted}, then follow {[each['role'] for each in answers]}"
        place += 1 + len(wanted)
    return ""


def ids_of(message: Json) -> list[str]:
    legacy = [message["function_call"]["name"]] if message.get("function_call") else []
    return [call["id"] for call in message.get("tool_calls") or []] or legacy


def _asked(seen: Evidence) -> list[str]:
    return [wire_id for message in seen.last_messages for wire_id in ids_of(message)]


def _answered(seen: Evidence) -> list[str]:
    return [str(message.get("tool_call_id", message.get("name"))) for message in seen.tool_messages]


def ids(expected: list[str], seen: Evidence) -> Complaint:
    return None if _asked(seen) == expected else f"ids {_asked(seen)}"


def unique_ids(expected: bool, seen: Evidence) -> Complaint:
    asked, answered = _asked(seen), _answered(seen)
    if not asked or not all(asked):
        return f"ids {asked}"
    good = len(set(asked)) == len(asked) and asked == answered
    return None if good == expected else f"ids {asked} and {answered}"


def id_pattern(expected: str, seen: Evidence) -> Complaint:
    sent = [*_asked(seen), *_answered(seen)]
    wrong = [each for each in sent if not re.search(expected, each)]
    return f"id {wrong[0]!r}" if wrong else None if sent else "no ids were sent"


def tool_results_text(expected: dict[str, str], seen: Evidence) -> Complaint:
    found = {str(message.get("tool_call_id")): message.get("content") for message in seen.tool_messages}
    wrong = [name for name, text in expected.items() if found.get(name) != text]
    return f"{wrong[0]}: {found.get(wrong[0])!r}" if wrong else None


def tool_message_order(expected: list[str], seen: Evidence) -> Complaint:
    return None if _answered(seen) == expected else f"tool messages {_answered(seen)}"


def tool_content_type(expected: str, seen: Evidence) -> Complaint:
    kinds = {"string": str, "array": list, "object": dict}
    contents = [message.get("content") for message in seen.tool_messages]
    wrong = [content for content in contents if not isinstance(content, kinds[expected])]
    return f"content {wrong[0]!r}" if wrong else None if contents else "no tool message was sent"


def tool_content_nonempty(expected: bool, seen: Evidence) -> Complaint:
    contents = [str(message.get("content") or "").strip() for message in seen.tool_messages]
    return None if contents and all(contents) == expected else f"contents {contents}"


def max_tool_content_chars(expected: int, seen: Evidence) -> Complaint:
    contents = [str(message.get("content")) for message in seen.tool_messages]
    if not contents:
        return "no tool message was sent"
    longest = max(contents, key=len)
    if len(longest) > expected:
        return f"a tool message has {len(longest)} characters"
    return None if _NOTE.search(longest[-200:]) else "no note says that it was cut"


def synthetic_result_for(expected: list[str], seen: Evidence) -> Complaint:
    missing = [each for each in expected if each not in _answered(seen)]
    return f"{missing[0]} has no result" if missing else None


def kept_last_user(expected: str, seen: Evidence) -> Complaint:
    said = [message.get("content") for message in seen.last_messages if message.get("role") == "user"]
    return None if said and said[-1] == expected else f"the last user message is {said[-1:]}"


def roles_sent(expected: list[str], seen: Evidence) -> Complaint:
    found = [message["role"] for message in seen.last_messages]
    return None if found == expected else f"roles {found}"


def request_contains(expected: Any, seen: Evidence) -> Complaint:
    sent = [json.dumps(body, ensure_ascii=False) for body in seen.bodies]
    missing = [text for text in listed(expected) if not any(text in each for each in sent)]
    return f"no {missing[0]!r} in a request" if missing else None


def request_excludes(expected: Any, seen: Evidence) -> Complaint:
    """A text, or a text in the messages of one role: `image_url in tool role`."""
    for text in listed(expected):
        scoped = re.fullmatch(r"(.+) in (\w+) role", text)
        for body in seen.bodies:
            messages = [m for m in body.get("messages", []) if scoped and m["role"] == scoped[2]]
            where = json.dumps(messages if scoped else body, ensure_ascii=False)
            if (scoped[1] if scoped else text) in where:
                return f"{text!r} in a request"
    return None


def history_arguments_type(expected: str, seen: Evidence) -> Complaint:
    kinds = {"string": str, "object": dict}
    found = [function["arguments"] for function in functions_in(seen)]
    wrong = [each for each in found if not isinstance(each, kinds[expected])]
    return f"arguments {wrong[0]!r}" if wrong else None if found else "no call was replayed"


def history_valid_json(expected: bool, seen: Evidence) -> Complaint:
    for function in functions_in(seen):
        try:
            valid = isinstance(json.loads(function["arguments"]), dict)
        except ValueError:
            valid = False
        if valid != expected:
            return f"arguments {function['arguments']!r}"
    return None if functions_in(seen) else "no call was replayed"


def history_excludes(expected: Any, seen: Evidence) -> Complaint:
    sent = json.dumps(seen.last_messages, ensure_ascii=False)
    found = [text for text in listed(expected) if text in sent]
    return f"{found[0]!r} is replayed" if found else None


def history_name_pattern(expected: str, seen: Evidence) -> Complaint:
    names = [function["name"] for function in functions_in(seen)]
    wrong = [name for name in names if not re.search(expected, name)]
    return f"name {wrong[0]!r} is replayed" if wrong else None if names else "no call was replayed"


def functions_in(seen: Evidence) -> list[Json]:
    found: list[Json] = []
    for message in seen.last_messages:
        found += [call["function"] for call in message.get("tool_calls") or []]
        found += [message["function_call"]] if message.get("function_call") else []
    return found
