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


@pytest.mark.parametrize("name", ["RuntimeLayer", "AuthorizeFunction", "StreamFunction", "ToolMcpFunction"])
def test_code_is_compiled_for_the_python_that_runs_it_when_it_is_built(built: Path, name: str) -> None:
    """What Lambda finds without its compiled form it compiles anew in each cold start: it cannot write it down."""
    sources = list((built / name).rglob("*.py"))
    missing = [path for path in sources if not (path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc").is_file()]
    assert sources
    assert not missing


def test_compiled_code_is_not_compared_with_its_source_when_it_is_loaded(built: Path) -> None:
    compiled = next((built / "RuntimeLayer" / "python" / "stepagent").rglob("*.pyc"))
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b01  # by hash, unchecked: what it is compared with otherwise, a time, is lost in the archive


def test_layer_keeps_what_packages_say_of_themselves_when_it_is_built(built: Path) -> None:
    kept = {path.name.partition("-")[0] for path in (built / "RuntimeLayer" / "python").glob("*.dist-info")}
    assert {"openai", "httpx2", "pydantic", "aws_lambda_powertools"} <= kept


def test_packages_are_those_for_lambdas_machine_when_they_are_built(built: Path) -> None:
    libraries = [path.name for path in built.rglob("*.so")]
    assert libraries
    assert not [name for name in libraries if "x86_64" in name]


def test_build_says_which_python_is_missing_when_there_is_none(tmp_path: Path) -> None:
    makefile = ROOT / "layers" / "runtime" / "python" / "Makefile"
    variables = {**os.environ, "BUILD_PYTHON": "no-python", "ARTIFACTS_DIR": str(tmp_path)}
    command = ["make", "-f", str(makefile), "build-RuntimeLayer"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Python 3.13 is needed" in done.stderr
    assert "BUILD_PYTHON=" in done.stderr


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
