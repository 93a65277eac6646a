"""From what was seen to passed or failed: every assertion key, and the outcomes that a case accepts beside it."""

import json
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tests.conformance import (
    assert_aws,
    assert_calls,
    assert_http,
    assert_requests,
    assert_schemas,
    assert_texts,
)
from tests.conformance.cases import Case, Skipped
from tests.conformance.evidence import Evidence, states_of

Assertion = Callable[[Any, Evidence], str | None]

_KEYS: dict[ModuleType, str] = {
    assert_calls: """calls calls_each executed executed_excludes executions forbidden_calls forbidden_in_args
        tool_executions_max tool_executions_each exact_digits tool_results runs""",
    assert_texts: """final_text final_texts final_text_nonempty final_text_persisted visible_text text_contains
        text_excludes text_contains_tool_result ordered_output joined_text user_text state state_in
        state_before_resume usage stored_json_strict utf8_encodable""",
    assert_requests: """model_requests model_requests_max retries min_wait_s ids unique_ids id_pattern
        tool_results_text tool_message_order tool_content_type tool_content_nonempty max_tool_content_chars invariant
        synthetic_result_for kept_last_user roles_sent request_contains request_excludes history_arguments_type
        history_valid_json history_excludes history_name_pattern""",
    assert_schemas: """alias_pattern alias_unique alias_count sent_parameters no_ref_in_sent terminates_ms
        all_objects_closed sent_valid_for_provider""",
    assert_http: """http_status http_status_in http_statuses variants error_shape usage_chunks sse_contains
        sse_excludes sse_line_pattern same_across_chunks role_only_first all_have_header handler_raises""",
    assert_aws: """variant_statuses state_bytes_max state_output state_output_contains run_closed_on lint_error
        retry_table max_events batch_item_failures name_pattern round_trip_equal item_bytes_max messages_loaded_all""",
}
ASSERTIONS: dict[str, Assertion] = {
    name: getattr(module, name) for module, names in _KEYS.items() for name in names.split()
}
ASSERTIONS |= {"error_class": assert_texts.is_error_class, "state_after": assert_texts.state}
_OWN = {"per_provider"}  # judged over all pieces of evidence together
_LIMITS = ("text_excludes", "executed", "executed_excludes", "invariant")


def unknown_keys(case: Case) -> list[str]:
    return [key for key in case.asserts if key not in ASSERTIONS and key not in _OWN]


def judge(case: Case, evidence: Sequence[Evidence]) -> list[str]:
    """What is wrong, [] for nothing; each complaint names its key.

    Raises:
        Skipped: nothing is wrong, and one assertion at least needs AWS itself.
    """
    if not evidence:
        return ["nothing was run"]
    complaints = [text for seen in evidence for text in _one(case, seen)]
    if "per_provider" in case.asserts:
        complaints += _per_provider(case, evidence)
    return list(dict.fromkeys(complaints))


def _one(case: Case, seen: Evidence) -> list[str]:
    strict, skipped = [], []
    for key, expected in case.asserts.items():
        if key in _OWN:
            continue
        try:
            complaint = ASSERTIONS[key](expected, seen)
        except Skipped as reason:
            skipped.append(str(reason))
        else:
            strict += [f"{key}: {complaint}"] if complaint else []
    if strict and case.acceptable and _acceptable(case, seen):
        return []
    if skipped and not strict:
        raise Skipped(skipped[0])
    return [f"[{seen.label}] {text}" if seen.label else text for text in strict]


def _acceptable(case: Case, seen: Evidence) -> bool:
    """No limit is broken, and the outcome is one of the safe ones."""
    limits = [key for key in case.asserts if key in _LIMITS or key.startswith("forbidden_")]
    if any(ASSERTIONS[key](case.asserts[key], seen) for key in limits):
        return False
    wanted = case.asserts.get("calls")
    unwanted = bool(seen.executed) and not assert_calls.exactly_executed(wanted, seen)
    safe_end = bool(states_of(seen.run) & {"failed", "incomplete", "refused"})
    asked_again = not seen.executed and len(seen.requests) > 1
    return not unwanted and (
        assert_calls.exactly_executed(wanted, seen) or assert_calls.any_error_result(seen) or safe_end or asked_again
    )


def _per_provider(case: Case, evidence: Sequence[Evidence]) -> list[str]:
    """Rendered for each provider that the case names: by assertions of its own, or, told in words, not all alike."""
    complaints, wanted = [], case.asserts["per_provider"]
    if not isinstance(wanted, dict):
        return []
    found = {seen.provider.removeprefix("provider "): seen for seen in evidence}
    for provider, expected in wanted.items():
        seen = found[provider]
        nested = expected if isinstance(expected, dict) else {}
        known = {key: value for key, value in nested.items() if key in ASSERTIONS}
        texts = [f"{key}: {c}" for key, value in known.items() if (c := ASSERTIONS[key](value, seen))]
        complaints += [f"[{provider}] {text}" for text in texts]
    bodies = {json.dumps(found[provider].bodies[-1]["messages"]) for provider in wanted}
    alike = len(wanted) > 1 and len(bodies) == 1 and len({json.dumps(each) for each in wanted.values()}) > 1
    return [*complaints, *(["per_provider: rendered alike for all"] if alike else [])]
