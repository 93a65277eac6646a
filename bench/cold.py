"""What it costs each function to be imported in a fresh process, and what compiled modules spare.

Once all is read from source, and once as `sam build` leaves it: it compiles the layer, and with them the functions that
bring packages of their own. The few lines of the others stay as they are. What the runtime has is compiled in both, as
it is on Lambda. CPU time is what counts: it is the same on a busy machine, and a Lambda of 1,769 MB has one processor.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import snapshot_restore_py

from bench.progress import Steps
from local.build import LIBRARY
from local.sam.image import VERSION, NoBaseImage, find_python

RUNS, QUICK_RUNS = 9, 2
_ROOT = Path(__file__).resolve().parent.parent
_CACHE = Path(".local/bench/cold")
_IMPORT = "import time; began = time.process_time(); import app; print(time.process_time() - began)"
_ENVIRONMENT = {  # what functions read while they are imported
    "AWS_REGION": "us-east-1",
    "RECORD_TABLE": "record",
    "JOURNAL_TABLE": "journal",
    "BUCKET": "bucket",
    "STATE_MACHINE_ARN": "arn:aws:states:us-east-1:000000000000:stateMachine:agent",
    "CATALOG_DIR": str(_ROOT / "catalog"),
    "POWERTOOLS_SERVICE_NAME": "stepagent",
    "POWERTOOLS_METRICS_NAMESPACE": "stepagent",
}


def measure(quick: bool, steps: Steps) -> dict[str, Any]:
    """Seconds of CPU that importing each function takes, the least of nine processes."""
    functions = sorted(folder for folder in (_ROOT / "functions").iterdir() if (folder / "app.py").exists())
    python, runs = importing_python(), QUICK_RUNS if quick else RUNS
    steps.expect(2 + 2 * len(functions))
    steps.begin("installs the layer")
    layer = _installed(_ROOT / LIBRARY, "layer", python)
    rows = []
    with tempfile.TemporaryDirectory() as runtime:
        _lay_runtime(Path(runtime), python)
        for folder in functions:
            own = _installed(folder, folder.name, python)
            row: dict[str, Any] = {"function": folder.name}
            for place in ("source", "compiled"):
                steps.begin(f"{folder.name}, {place}")
                path = os.pathsep.join((str(own / place_of(folder, place)), str(layer / place), runtime))
                row[f"{place}_ms"] = round(1000 * min(_import_s(python, path) for _ in range(runs)), 1)
            rows.append(row)
    return {"python": _run(python, "-V").split()[-1], "runs": runs, "rows": rows}


def importing_python() -> str:
    """The Python that Lambda runs, or else the one that runs this."""
    try:
        return str(find_python() / f"bin/python{VERSION}")
    except NoBaseImage:
        return sys.executable


def place_of(function: Path, layer: str) -> str:
    """Where a function's own code is taken from, beside a layer that is read from source or compiled."""
    return layer if (function / "requirements.txt").exists() else "source"


def _lay_runtime(folder: Path, python: str) -> None:
    """What Lambda's Python brings beside its own library, as far as functions import it."""
    shutil.copy(snapshot_restore_py.__file__, folder)
    _compile(folder, python)


def _import_s(python: str, path: str) -> float:
    """CPU seconds in one fresh process; what is not compiled stays so."""
    environment = _ENVIRONMENT | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": os.devnull}
    return float(_run(python, "-s", "-c", _IMPORT, env=environment).splitlines()[-1])


def _run(*command: str, env: dict[str, str] | None = None) -> str:
    """What a command printed.

    Raises:
        RuntimeError: it failed; the message has the end of what it said.
    """
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _installed(folder: Path, name: str, python: str) -> Path:
    """The folder with its requirements beside it, as `source` and as `compiled`; made where its content is new."""
    requirements = folder / "requirements.txt"
    digest = hashlib.sha256(python.encode())
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    built = _ROOT / _CACHE / f"{name}-{digest.hexdigest()[:16]}"
    if built.exists():
        return built
    for old in built.parent.glob(f"{name}-????????????????"):
        shutil.rmtree(old)
    making = built.with_suffix(".part")
    shutil.rmtree(making, ignore_errors=True)
    shutil.copytree(folder, making / "source", ignore=shutil.ignore_patterns("__pycache__"))
    if requirements.exists():
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
        _run(*pip, "--target", str(making / "source"), "-r", str(requirements))
    shutil.copytree(making / "source", making / "compiled")
    _compile(making / "compiled", python)
    making.rename(built)
    return built


def _compile(folder: Path, python: str) -> None:
    compiling = [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    subprocess.run([*compiling, folder], check=False, stdout=subprocess.DEVNULL)  # some packages ship templates


def lines(result: dict[str, Any]) -> list[str]:
    source, compiled = (sum(row[f"{place}_ms"] for row in result["rows"]) for place in ("source", "compiled"))
    think = next(row for row in result["rows"] if row["function"] == "think")
    slowest = max(result["rows"], key=lambda row: row["compiled_ms"])
    return [
        f"cold import CPU: think from source {think['source_ms']:.0f} ms, compiled {think['compiled_ms']:.0f} ms;"
        f" all functions {source:.0f} ms, compiled {compiled:.0f} ms ({100 * (1 - compiled / source):.0f} % less)",
        f"the most, compiled: {slowest['function']} {slowest['compiled_ms']:.0f} ms",
    ]
