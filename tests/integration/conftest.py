"""The real loop on the emulator, with the probe tool and a scripted model, once for all integration tests."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from local.build import LIBRARY
from local.door_process import free_port
from tests import probe
from tests.local_loop import API_KEY, ROOT, LocalLoop, forget, local_loop
from tests.scripted_model import ScriptedModel


@pytest.fixture(scope="session")
def endless_model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def model(endless_model: ScriptedModel) -> ScriptedModel:
    endless_model.reset()
    return endless_model


@pytest.fixture(scope="session")
def probe_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probe") / "runs.log"


@pytest.fixture(scope="session")
def loop(
    endless_model: ScriptedModel, probe_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalLoop]:
    root = probe.lay_out(tmp_path_factory.mktemp("product"))
    with local_loop(endless_model.base_url, root=root, PROBE_LOG=str(probe_log)) as running:
        yield running


@pytest.fixture
def restored_environment() -> Iterator[None]:
    """Puts back what a test that enters a stack of its own changes."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    forget()


@pytest.fixture
def probed(probe_log: Path) -> Path:
    """The probe tool's log, empty."""
    probe_log.write_text("")
    return probe_log


@pytest.fixture(scope="session")
def api(loop: LocalLoop) -> Iterator[httpx.Client]:
    """A client of the HTTP API, behind the front door."""
    port = free_port(0)
    command = [sys.executable, "-m", "local.front_door", "--port", str(port), "--tied"]
    environment = os.environ | {
        "STEPAGENT_API_URL": loop.stack.api_url,
        "STEPAGENT_API_KEY": API_KEY,
        "PYTHONPATH": str(ROOT / LIBRARY),
    }
    with (
        subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE) as front_door,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=30) as client,
    ):
        _wait_for(port)
        yield client
        front_door.terminate()


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probing:
            if probing.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("the front door does not listen")
