"""The template as checkov sees it: what it finds is mended, or has a reason in `.checkov.yaml`."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functions import ROOT
from tests.translated import translated_template

CHECKOV = Path(os.environ.get("STEPAGENT_CHECKOV") or ROOT / ".local" / "checkov" / "bin" / "checkov")
pytestmark = pytest.mark.skipif(not CHECKOV.is_file(), reason="there is no checkov: `make test` installs it")


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkov") / "template.json"
    path.write_text(json.dumps(translated_template()))
    return path


def checked(path: Path, *options: str, folder: Path) -> dict[str, Any]:
    """What checkov found; it ends with 1 where it found something, and reads the configuration of its folder."""
    command = [str(CHECKOV), "--file", str(path), "--output", "json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def findings(report: dict[str, Any]) -> list[str]:
    return [f"{each['check_id']} {each['resource']}" for each in report["results"]["failed_checks"]]


def test_template_is_clean_as_it_is_written() -> None:
    report = checked(ROOT / "template.yaml", folder=ROOT)
    assert findings(report) == []
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] > report["summary"]["resource_count"] > 50


def test_template_is_clean_as_it_is_deployed_but_for_what_has_a_reason(translated: Path) -> None:
    options = ("--framework", "cloudformation", "--skip-download", "--quiet")
    report = checked(translated, *options, folder=translated.parent)
    reasons = set(yaml.safe_load((ROOT / ".checkov.yaml").read_text())["skip-check"])
    assert {each.split()[0] for each in findings(report)} == reasons
