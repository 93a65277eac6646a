"""All hard cases, run as the command runs them."""

import pytest

from tests.conformance.cases import FOLDER, load_cases
from tests.conformance.run import run_all


@pytest.mark.parametrize("file", ["shared.jsonl", "own.jsonl"])
def test_every_case_passes(file: str) -> None:
    cases = load_cases(FOLDER / file)
    results = run_all(cases, lambda result: None)
    assert [str(result) for result in results if result.verdict != "PASS"] == []
