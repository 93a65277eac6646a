"""The real loop on the emulator, with the probe tool and a scripted model, once for all integration tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import probe
from tests.local_loop import LocalLoop, forget, front_door, local_loop
from tests.scripted_model import ScriptedModel


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
    with front_door(loop) as client:
        yield client
