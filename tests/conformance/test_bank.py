"""The hard cases of what is built, run as the command runs them."""

import pytest

from tests.conformance.cases import FOLDER, load_cases
from tests.conformance.run import run_all

BUILT = frozenset("abcdefgi")  # groups; the others are run by `make conformance` and tell what is missing


@pytest.mark.parametrize("file", ["shared.jsonl", "own.jsonl"])
def test_every_case_of_what_is_built_passes(file: str) -> None:
    cases = [case for case in load_cases(FOLDER / file) if case.group in BUILT]
    results = run_all(cases, lambda result: None)
    assert [str(result) for result in results if result.verdict != "PASS"] == []
