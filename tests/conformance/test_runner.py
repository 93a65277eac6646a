"""The runner itself: it passes what is right and, above all, fails what is wrong. No local stack is started."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import FOLDER, Case, load_cases
from tests.conformance.evidence import Answer, Evidence, Executed
from tests.conformance.run import main, run_all, run_case
from tests.conformance.verdict import ASSERTIONS, judge
from tests.conformance.wire import FILLER, Asked, Script, said

PURE = [case for case in load_cases(FOLDER / "own.jsonl") if case.kind in ("tools", "history")]
ASKED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
}
USER = {"role": "user", "content": "hi"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


def a_case(asserts: dict[str, Any], *acceptable: str, **given: Any) -> Case:
    return Case(
        "x", "a", {"kind": "history", "messages": [USER], **given}, {"assert": asserts, "acceptable": acceptable}
    )


def asked(*messages: dict[str, Any]) -> Asked:
    body = {"messages": list(messages)}
    return Asked(0, json.dumps(body).encode(), body)


@pytest.mark.parametrize("case", PURE, ids=lambda case: case.id)
def test_case_passes_when_the_product_does_as_expected(case: Case) -> None:
    assert str(run_case(case, 0, None)) == f"PASS {case.id}"


@pytest.mark.parametrize(
    ("case_id", "key", "wrong"),
    [
        ("of1", "sent_valid_for_provider", False),
        ("of1", "terminates_ms", -1),
        ("of2", "alias_count", 2),
        ("of2", "alias_pattern", "^z"),
        ("og3", "roles_sent", ["user"]),
        ("og3", "synthetic_result_for", ["c9"]),
        ("og3", "kept_last_user", "q"),
        ("og4", "id_pattern", "^[0-9]+$"),
        ("og5", "per_provider", {"openai": {"request_contains": ["thought_signature"]}}),
    ],
)
def test_case_fails_when_its_expectation_is_wrong(case_id: str, key: str, wrong: Any) -> None:
    case = next(case for case in PURE if case.id == case_id)
    broken = replace(case, expected={"assert": {**case.asserts, key: wrong}})
    result = run_case(broken, 0, None)
    assert result.verdict == "FAIL"
    assert key in result.reason or "request_contains" in result.reason


@pytest.mark.parametrize(
    ("key", "expected", "seen"),
    [
        ("calls", [["f", {"n": 2}]], Evidence(executed=[Executed("f", {"n": 2.0}, "c1", "")])),
        ("calls", [], Evidence(executed=[Executed("f", {}, "c1", "")])),
        ("executed_excludes", ["c1"], Evidence(executed=[Executed("f", {}, "c1", "")])),
        ("forbidden_calls", [["f", {}]], Evidence(executed=[Executed("f", {}, "c1", "")])),
        ("forbidden_in_args", ["\t"], Evidence(executed=[Executed("f", {"a": ["x\ty"]}, "c1", "")])),
        ("text_excludes", ["toolId"], Evidence(visible='1: {"toolId"')),
        ("utf8_encodable", True, Evidence(visible="\ud83d")),
        ("stored_json_strict", True, Evidence(stored=['{"a": NaN}'])),
        ("invariant", "pairing", Evidence(requests=[asked(USER, ASKED, USER, RESULT)])),
        ("invariant", "pairing", Evidence(requests=[asked(USER, ASKED)])),
        ("invariant", "pairing", Evidence(requests=[asked(USER, RESULT)])),
        ("max_tool_content_chars", 5, Evidence(requests=[asked(ASKED, {**RESULT, "content": "123456"})])),
        ("max_tool_content_chars", 9, Evidence(requests=[asked(ASKED, {**RESULT, "content": "123456"})])),
        ("state", "completed", Evidence()),
        ("min_wait_s", [2], Evidence(requests=[Asked(0, b"", {}), Asked(1, b"", {})])),
        ("all_have_header", "x", Evidence(answers=[Answer(200, {"x": "1"}, ""), Answer(504, {}, "")])),
        ("error_shape", True, Evidence(answers=[Answer(500, {}, '{"message": "no"}')])),
        ("usage_chunks", [1], Evidence(answers=[Answer(200, {}, 'data: {"choices": []}\n\ndata: [DONE]\n')])),
    ],
)
def test_assertion_complains_when_what_was_seen_is_wrong(key: str, expected: Any, seen: Evidence) -> None:
    assert ASSERTIONS[key](expected, seen)


def test_every_key_of_the_shared_bank_is_known() -> None:
    keys = {key for case in load_cases(FOLDER / "shared.jsonl") for key in case.asserts}
    assert keys <= set(ASSERTIONS) | {"per_provider"}


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (a_case({"flavour": "sweet"}), "unknown assertion key flavour"),
        (a_case({"state": "completed"}, kind="telepathy"), "needs the local stack"),
        (a_case({"state": "completed"}, messages=[{"role": "user"}], tools=["nothing"]), "no tool 'nothing'"),
    ],
)
def test_case_fails_when_it_cannot_be_run(case: Case, reason: str) -> None:
    result = run_case(case, 0, None)
    assert (result.verdict, reason in result.reason) == ("FAIL", True)


def test_acceptable_outcome_passes_when_no_limit_is_broken() -> None:
    case = a_case({"calls": [["f", {"q": "a"}]], "text_excludes": ["toolId"]}, "re-ask")
    asked_again = [asked(USER), asked(USER, USER)]
    assert judge(case, [Evidence(requests=asked_again)]) == []
    assert judge(case, [Evidence(requests=asked_again, visible="toolId")])
    assert judge(case, [Evidence(requests=asked_again, executed=[Executed("f", {"q": "b"}, "", "")])])
    assert judge(case, [Evidence(requests=[asked(USER)])])


def test_script_repeats_itself_to_the_same_request_and_goes_on_with_a_new_one() -> None:
    script = Script([said("first")])
    answers = [script.answer(each) for each in (asked(USER), asked(USER), asked(USER, RESULT))]
    texts = ["first" in str(answer.parts) for answer in answers]
    assert (texts, FILLER in str(answers[2].parts)) == ([True, True, False], True)


@pytest.mark.parametrize(("count", "code"), [(4, 0), (2, 1)])
def test_last_line_counts_and_the_exit_code_tells_of_failures(
    count: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "x1", "input": {"kind": "history", "messages": [USER]}}
    rows = [{**row, "expected": {"assert": {"roles_sent": ["user"]}}}, {**row, "expected": {"assert": {"no_key": 1}}}]
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in ([rows[0]] * 4 if code == 0 else rows)))
    monkeypatch.setattr(sys, "argv", ["run", str(path)])
    assert main() == code
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == count
    assert last == f"{4 if code == 0 else 1} passed, {code} failed, 0 skipped"


def test_results_stand_in_one_list_when_cases_run_at_once() -> None:
    shown: list[str] = []
    results = run_all(PURE, lambda result: shown.append(str(result)))
    assert sorted(map(str, results)) == sorted(shown)
