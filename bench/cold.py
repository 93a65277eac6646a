"""What it costs each function to be imported in a fresh process, and what compiled modules spare.

The layer and each function's own packages are installed as `sam build` does, once without compiled modules, as it ships
them, and once with them. Python's own library is compiled in both, as it is on Lambda. CPU time is what counts: it is
the same on a busy machine, and a Lambda of 1,769 MB has one processor.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.progress import Steps
from local.build import LIBRARY

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
    runs = QUICK_RUNS if quick else RUNS
    steps.expect(2 + 2 * len(functions))
    steps.begin("installs the layer")
    layer = _installed(_ROOT / LIBRARY, "layer")
    rows = []
    for folder in functions:
        own = _installed(folder, folder.name)
        row: dict[str, Any] = {"function": folder.name}
        for compiled, place in enumerate(("source", "compiled")):
            steps.begin(f"{folder.name}, {place}")
            path = os.pathsep.join(str(built / place) for built in (own, layer))
            row[f"{place}_ms"] = round(1000 * min(_import_s(path, bool(compiled)) for _ in range(runs)), 1)
        rows.append(row)
    return {"python": platform.python_version(), "runs": runs, "rows": rows}


def _import_s(path: str, compiled: bool) -> float:
    """CPU seconds in one fresh process; what is not compiled stays so."""
    environment = _ENVIRONMENT | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": os.devnull}
    return float(_run(sys.executable, "-s", "-c", _IMPORT, env=environment).splitlines()[-1])


def _run(*command: str, env: dict[str, str] | None = None) -> str:
    """What a command printed.

    Raises:
        RuntimeError: it failed; the message has the end of what it said.
    """
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _installed(folder: Path, name: str) -> Path:
    """The folder with its requirements beside it, as `source` and as `compiled`; made where its content is new."""
    requirements = folder / "requirements.txt"
    digest = hashlib.sha256(sys.version.encode())
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
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
        _run(*pip, "--target", str(making / "source"), "-r", str(requirements))
    shutil.copytree(making / "source", making / "compiled")
    compiling = [sys.executable, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    subprocess.run([*compiling, making / "compiled"], check=False, stdout=subprocess.DEVNULL)  # some ship templates
    making.rename(built)
    return built


def lines(result: dict[str, Any]) -> list[str]:
    source, compiled = (sum(row[f"{place}_ms"] for row in result["rows"]) for place in ("source", "compiled"))
    think = next(row for row in result["rows"] if row["function"] == "think")
    slowest = max(result["rows"], key=lambda row: row["compiled_ms"])
    return [
        f"cold import CPU: think {think['source_ms']:.0f} ms, compiled {think['compiled_ms']:.0f} ms; all functions"
        f" {source:.0f} ms, compiled {compiled:.0f} ms ({100 * (1 - compiled / source):.0f} % less)",
        f"the most, compiled: {slowest['function']} {slowest['compiled_ms']:.0f} ms",
    ]
