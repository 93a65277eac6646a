"""What is imported as `sam build` leaves it: the layer compiled, and of the functions those that bring packages."""

import sys
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from bench import cold as subject
from local.sam.image import NoBaseImage

ROOT = Path(__file__).parents[2]


def function(folder: Path, *files: str) -> Path:
    for name in ("app.py", *files):
        (folder / name).touch()
    return folder


def test_function_that_brings_packages_is_compiled_when_it_is_built(tmp_path: Path) -> None:
    assert subject.place_of(function(tmp_path, "requirements.txt"), "compiled") == "compiled"


def test_function_that_brings_none_stays_as_it_is_when_it_is_built(tmp_path: Path) -> None:
    assert subject.place_of(function(tmp_path), "compiled") == "source"


def test_nothing_is_compiled_when_all_is_read_from_source(tmp_path: Path) -> None:
    assert subject.place_of(function(tmp_path, "requirements.txt"), "source") == "source"


def test_functions_that_the_template_has_compiled_are_those_that_bring_packages() -> None:
    resources = yaml_parse((ROOT / "template.yaml").read_text())["Resources"].values()
    functions = [each for each in resources if each["Type"] == "AWS::Serverless::Function"]
    compiled = {
        each["Properties"]["CodeUri"] for each in functions if each.get("Metadata", {}).get("BuildMethod") == "makefile"
    }
    bring = {str(found.parent.relative_to(ROOT)) for found in ROOT.glob("functions/*/requirements.txt")}
    assert compiled == bring


def test_python_of_lambda_imports_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "find_python", lambda: Path("/opt/python"))
    assert subject.importing_python() == "/opt/python/bin/python3.13"


def test_python_of_the_benchmarks_imports_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> Path:
        raise NoBaseImage("none")

    monkeypatch.setattr(subject, "find_python", find_none)
    assert subject.importing_python() == sys.executable
