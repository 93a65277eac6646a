"""The definitions of the state machines, checked by the npm package asl-validator."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.functions import ROOT
from tests.sdk import find_node

VALIDATE = """
const validate = require("asl-validator");
const {isValid, errorsText} = validate(JSON.parse(require("fs").readFileSync(0, "utf8")));
if (!isValid) { console.error(errorsText()); process.exit(1); }
"""
MODULES = Path(os.environ.get("STEPAGENT_NODE_MODULES") or ROOT / ".local" / "node_modules")


@pytest.mark.skipif(not find_node(), reason="there is no node")
@pytest.mark.skipif(not (MODULES / "asl-validator").is_dir(), reason=f"there is no asl-validator in {MODULES}")
@pytest.mark.parametrize("path", sorted((ROOT / "statemachine").glob("*.yaml")), ids=lambda path: path.name)
def test_definition_is_valid_when_the_validator_reads_it(path: Path) -> None:
    environment = {**os.environ, "NODE_PATH": str(MODULES)}
    done = subprocess.run(
        [find_node(), "-e", VALIDATE],
        input=json.dumps(yaml_parse(path.read_text())),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
