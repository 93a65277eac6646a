"""The audit of packages: what it shows, and that it never stands in the way."""

import json
from typing import Any

import pytest

from tests.audit.report import main, report

SOUND: dict[str, Any] = {"name": "idna", "version": "3.20", "vulns": []}
WEAK: dict[str, Any] = {"name": "six", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}]}
UNKNOWN: dict[str, Any] = {"name": "ours", "skip_reason": "not found"}


def answer(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_audit_names_package_vulnerability_and_cure_when_it_finds_one() -> None:
    assert report(answer(SOUND, WEAK), "") == [
        "  six 1.0: PYSEC-1, mended in 1.1, 2.0",
        "Audit: 2 packages looked up, 1 known vulnerabilities.",
    ]


def test_audit_does_not_count_packages_that_nobody_knew() -> None:
    [line] = report(answer(SOUND, UNKNOWN), "")
    assert (
        line
        == "Audit: 1 packages looked up, 0 known vulnerabilities; 1 packages are not known to the index that was asked."
    )


@pytest.mark.parametrize("broken", ["", "no json", "{}"])
def test_audit_says_why_when_it_could_not_be_done(broken: str) -> None:
    assert report(broken, "Traceback\nConnectionError: no route") == ["Audit: not done, ConnectionError: no route"]


def test_audit_says_why_when_its_program_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["report", "/nowhere/pip-audit", "/nowhere"])
    main()
    assert capsys.readouterr().out.startswith("Audit: not done, ")
