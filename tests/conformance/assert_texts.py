"""What a case asserts of texts and states: what people see, what is stored, how the run stands."""

import json
import re
from typing import Any

from stepagent.runs import Run
from tests.conformance.evidence import Evidence, error_class, states_of
from tests.conformance.wire import FILLER

Complaint = str | None


def shown(seen: Evidence) -> str:
    """All that a person may see of it: what was streamed, the answer, and the words of a failure."""
    failure = seen.run.failure.message if seen.run and seen.run.failure else ""
    answers = "\n".join(answer.text for answer in seen.answers)
    return "\n".join([seen.visible, "".join(seen.deltas), answer_of(seen.run), failure, answers])


def answer_of(run: Run | None) -> str:
    return run.answer if run else ""


def final_text(expected: str, seen: Evidence) -> Complaint:
    found = answer_of(seen.run)
    return None if found == expected else f"final text {found!r}"


def final_texts(expected: list[str], seen: Evidence) -> Complaint:
    return final_text(expected[seen.position], seen)


def final_text_nonempty(expected: bool, seen: Evidence) -> Complaint:
    return None if bool(answer_of(seen.run).strip()) == expected else f"final text {answer_of(seen.run)!r}"


def final_text_persisted(expected: bool, seen: Evidence) -> Complaint:
    """The answer and the last reply of the conversation say the same."""
    last = seen.replies[-1].text if seen.replies else ""
    kept = bool(last.strip()) and last == answer_of(seen.run)
    return None if kept == expected else f"stored {last!r}, answered {answer_of(seen.run)!r}"


def visible_text(expected: str, seen: Evidence) -> Complaint:
    joined = "".join(seen.deltas).removesuffix(FILLER).rstrip("\n")
    return None if expected in (seen.visible, joined) else f"visible text {seen.visible!r}"


def joined_text(expected: str, seen: Evidence) -> Complaint:
    found = "".join(seen.deltas)
    return None if found == expected else f"joined text {found!r}"


def text_contains(expected: Any, seen: Evidence) -> Complaint:
    missing = [text for text in listed(expected) if text not in shown(seen)]
    return f"no {missing[0]!r} in what is shown" if missing else None


def text_excludes(expected: Any, seen: Evidence) -> Complaint:
    found = [text for text in listed(expected) if text in shown(seen)]
    return f"{found[0]!r} is shown" if found else None


def text_contains_tool_result(expected: Any, seen: Evidence) -> Complaint:
    texts = json.dumps(seen.tool_messages, ensure_ascii=False) + json.dumps(seen.tool_messages)
    if not seen.tool_messages:  # in text mode results are the user's words
        texts = json.dumps(seen.last_messages, ensure_ascii=False)
    missing = [text for text in listed(expected) if text not in texts]
    return f"no {missing[0]!r} in the tool messages" if missing else None


def ordered_output(expected: list[str], seen: Evidence) -> Complaint:
    place, text = 0, seen.visible or answer_of(seen.run)
    for output in expected:
        found = text.find(output, place)
        if found < 0:
            return f"no {output!r} at its place in {text!r}"
        place = found + len(output)
    return None


def user_text(expected: str, seen: Evidence) -> Complaint:
    said = [message.get("content") for message in seen.last_messages if message.get("role") == "user"]
    content = said[-1] if said else seen.facts.get("user_text")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if part.get("type") == "text")
    return None if content == expected else f"user text {content!r}"


def state(expected: str, seen: Evidence) -> Complaint:
    return state_in([expected], seen)


def state_in(expected: list[str], seen: Evidence) -> Complaint:
    found = states_of(seen.run)
    return None if found & set(expected) else f"state {'/'.join(sorted(found)) or 'none'}{_why(seen.run)}"


def _why(run: Run | None) -> str:
    return f" ({run.failure.code}: {run.failure.message[:80]})" if run and run.failure else ""


def state_before_resume(expected: str, seen: Evidence) -> Complaint:
    return None if seen.state_before_resume == expected else f"state before resume {seen.state_before_resume!r}"


def is_error_class(expected: str, seen: Evidence) -> Complaint:
    found = error_class(seen.run)
    return None if found == expected else f"error class {found or 'none'!r}{_why(seen.run)}"


def usage(expected: Any, seen: Evidence) -> Complaint:
    counted = seen.run.usage if seen.run else None
    found = [counted.input_tokens, counted.output_tokens] if counted else [0, 0]
    found.append(sum(found))
    if isinstance(expected, dict):
        keys = [("prompt", "prompt_tokens"), ("completion", "completion_tokens"), ("total", "total_tokens")]
        named = [expected.get(short, expected.get(long)) for short, long in keys]
        wanted = [have if want is None else want for have, want in zip(found, named, strict=True)]
    else:
        wanted = list(expected)
    return None if found == wanted else f"usage {found}"


def stored_json_strict(expected: bool, seen: Evidence) -> Complaint:
    """Every text that is stored or sent and is JSON is JSON for every reader."""
    sent = [asked.raw.decode("utf-8", "replace") for asked in seen.requests]
    sent += [text for message in seen.last_messages for text in _jsons(message)]
    for text in [*seen.stored, *sent]:
        if re.search(r"[\[{]", text[:1]) and not _is_strict(text):
            return f"not strict JSON: {text[:80]!r}"
    return None


def _jsons(message: dict[str, Any]) -> list[str]:
    arguments = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
    content = message.get("content")
    return [*arguments, *([content] if isinstance(content, str) and message.get("role") == "tool" else [])]


def _is_strict(text: str) -> bool:
    """Text that is no JSON at all is no fault: only a token that lenient readers alone take is."""
    tokens: list[str] = []
    try:
        json.loads(text, parse_constant=tokens.append)
    except ValueError:
        return True
    return not tokens


def utf8_encodable(expected: bool, seen: Evidence) -> Complaint:
    everything = [*seen.stored, shown(seen), *seen.deltas, *(json.dumps(b, ensure_ascii=False) for b in seen.bodies)]
    for text in everything:
        try:
            text.encode()
        except UnicodeEncodeError:
            return f"half a character in {text[:60]!r}"
    return None


def listed(expected: Any) -> list[str]:
    return [expected] if isinstance(expected, str) else list(expected)
