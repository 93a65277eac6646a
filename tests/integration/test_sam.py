"""The template as AWS SAM sees it: valid, and built into what fits a function."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.functions import ROOT

UNZIPPED_BYTES = 250_000_000  # Lambda's limit for a function with its layers
ENVIRONMENT = {"SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "eu-central-1"}


def find_sam() -> str:
    """The sam program, or nothing."""
    own = ROOT / ".local" / "sam" / "bin" / "sam"
    return os.environ.get("STEPAGENT_SAM") or shutil.which("sam") or (str(own) if own.is_file() else "")


def find_python() -> str:
    """The folder of a python3.13 that runs, or nothing: a shim of pyenv may be there and not run."""
    found = [shutil.which("python3.13") or "", *map(str, Path.home().glob(".pyenv/versions/3.13*/bin/python3.13"))]
    for program in filter(None, found):
        if subprocess.run([program, "-V"], capture_output=True, check=False).returncode == 0:
            return str(Path(program).parent)
    return ""


SAM, PYTHON = find_sam(), find_python()
pytestmark = pytest.mark.skipif(not SAM, reason="there is no sam: name one in STEPAGENT_SAM")


def sam(*arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Runs sam; its words are the failure's message."""
    variables = {**os.environ, **ENVIRONMENT, **(environment or {})}
    done = subprocess.run([SAM, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PYTHON:
        pytest.skip("there is no python3.13, which sam builds with")
    folder = tmp_path_factory.mktemp("sam")
    path = os.pathsep.join([PYTHON, os.environ["PATH"]])
    options = ["--build-dir", str(folder / "build"), "--cache-dir", str(folder / "cache")]
    sam("build", *options, environment={"PATH": path})
    return folder / "build"


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_template_is_valid_when_it_is_linted() -> None:
    sam("validate", "--lint")


def test_layer_holds_the_library_and_its_dependencies_when_it_is_built(built: Path) -> None:
    layer = built / "RuntimeLayer" / "python"
    assert (layer / "stepagent" / "__init__.py").is_file()
    assert {"openai", "pydantic", "jsonschema", "yaml"} <= {path.name for path in layer.iterdir()}


def test_functions_fit_when_they_are_unpacked_with_their_layers(built: Path) -> None:
    layers = size_bytes(built / "RuntimeLayer") + size_bytes(ROOT / "catalog")
    largest = max(size_bytes(folder) for folder in built.glob("*Function"))
    assert layers + largest < UNZIPPED_BYTES


def test_only_the_product_is_deployed_when_it_is_built(built: Path) -> None:
    names = {path.relative_to(built).as_posix() for path in built.rglob("*")}
    foreign = re.compile(r"(\w+Function|RuntimeLayer/python(/stepagent)?)/(tests|local|bench)/|.*ministack")
    assert not [name for name in names if foreign.match(name)]
    assert not [name for name in names if name.endswith("_cache") and name.count("/") < 4]


def test_stream_brings_its_own_server_when_it_is_built(built: Path) -> None:
    folder = built / "StreamFunction"
    assert {"starlette", "uvicorn", "run.sh", "app.py"} <= {path.name for path in folder.iterdir()}
    assert os.access(folder / "run.sh", os.X_OK)
