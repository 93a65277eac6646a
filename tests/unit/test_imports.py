"""What a cold start pays for: which function imports what, each seen in a process of its own."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from tests.functions import ROOT

LIBRARY = ROOT / "layers" / "runtime" / "python"
FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))


# What is in the process beside packages once somebody has made a client of AWS.
CLIENT = "a client of AWS"
_ASKING = f"""
made = getattr(sys.modules.get("boto3"), "DEFAULT_SESSION", None)
names = [name.partition(".")[0] for name in sys.modules] + ([{CLIENT!r}] if made else [])
print(json.dumps(sorted(names)))
"""


@cache
def imported_by(module: str, folder: str = "") -> frozenset[str]:
    """The top-level packages that a fresh process has after this import."""
    roots = [str(ROOT / "functions" / folder)] if folder else []
    code = f"import json, sys, {module}{_ASKING}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, str(LIBRARY)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name != "think"])
def test_function_does_not_import_openai_when_it_asks_no_model(function: str) -> None:
    assert "openai" not in imported_by("app", function)


def test_think_imports_openai_when_it_starts() -> None:
    assert "openai" in imported_by("app", "think")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_function_makes_no_client_when_it_starts(function: str) -> None:
    """It connects when it must; what starts from a snapshot would find its connections dead."""
    assert CLIENT not in imported_by("app", function)


def test_client_is_seen_when_somebody_makes_one() -> None:
    assert CLIENT in imported_by("boto3; boto3.client('dynamodb')")


def test_turn_imports_neither_store_nor_provider_when_it_is_pure() -> None:
    assert not imported_by("stepagent.turn") & {"boto3", "botocore", "openai", "httpx2"}


@pytest.mark.parametrize("module", ["stepagent.tools", "stepagent.think", "stepagent.api.service"])
def test_library_needs_no_setting_when_it_is_imported(module: str) -> None:
    assert "stepagent" in imported_by(module)


# The official client for MCP servers brings what its servers need, too.
@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name not in ("stream", "tool_mcp")])
def test_function_does_not_import_a_web_server_when_it_is_none(function: str) -> None:
    assert not imported_by("app", function) & {"starlette", "uvicorn"}
