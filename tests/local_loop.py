"""The real loop on a fresh emulator, for tests and benchmarks: the product deployed, and this process part of it."""

import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from local.build import LIBRARY, build
from local.deploy import Stack, client, deploy
from local.door_process import free_port
from local.emulator import Emulator, start, stop
from stepagent.executions import client as executions_client
from stepagent.runs import Call, RunId, RunKey
from stepagent.settings import settings
from stepagent.store.clients import dynamodb, s3
from stepagent.store.conversation import load_history

ROOT = Path(__file__).resolve().parent.parent
API_KEY = "local-key"
CORS_ORIGIN = "https://app.example"  # whose pages may call
_END_S = 30


@dataclass(frozen=True)
class LocalLoop:
    """The deployed stack and what tests ask of it."""

    emulator: Emulator
    stack: Stack

    def client(self, service: str) -> Any:
        return client(self.emulator, service)

    def execution_arn(self, run_id: RunId) -> str:
        return self.stack.state_machine_arn.replace(":stateMachine:", ":execution:") + f":{run_id}"

    def wait_end(self, run_id: RunId) -> str:
        """The status with which the execution of a run ended."""
        executions, deadline = self.client("stepfunctions"), time.monotonic() + _END_S
        while time.monotonic() < deadline:
            status: str = executions.describe_execution(executionArn=self.execution_arn(run_id))["status"]
            if status != "RUNNING":
                return status
            time.sleep(0.02)
        raise TimeoutError(f"run {run_id} did not end within {_END_S} s")

    def history(self, run_id: RunId) -> list[dict[str, Any]]:
        """The execution's events; the emulator lists none of those inside a Map."""
        pages = self.client("stepfunctions").get_paginator("get_execution_history")
        arn = self.execution_arn(run_id)
        return [event for page in pages.paginate(executionArn=arn) for event in page["events"]]

    def state_entries(self, run_id: RunId) -> int:
        """State entries of an ended run: those listed, and two for each call of the record."""
        listed = len([event for event in self.history(run_id) if event["type"].endswith("StateEntered")])
        key = RunKey.parse(run_id)
        calls = [entry for entry in load_history(key.session) if isinstance(entry, Call)]
        return listed + 2 * sum(call.key.ordinal == key.ordinal for call in calls)


def enter(emulator: Emulator, stack: Stack, root: Path) -> None:
    """Lets the library in this process take part in the stack, whatever it took part in before."""
    os.environ.update(
        emulator.environment
        | {
            "RECORD_TABLE": stack.record_table,
            "JOURNAL_TABLE": stack.journal_table,
            "BUCKET": stack.bucket,
            "STATE_MACHINE_ARN": stack.state_machine_arn,
            "PLAN_STATE_MACHINE_ARN": stack.plan_state_machine_arn,
            "CATALOG_DIR": str(root / "catalog"),
        }
    )
    forget()


def forget() -> None:
    """Makes the library read its settings and connect anew."""
    for cached in (settings, dynamodb, s3, executions_client):
        cached.cache_clear()


@contextmanager
def local_loop(base_url: str, *, root: Path = ROOT, **environment: str) -> Iterator[LocalLoop]:
    """Deploys to a fresh emulator, with a model at `base_url`, and lets this process take part."""
    with tempfile.TemporaryDirectory() as folder:
        emulator = start(Path(folder))
        try:
            parameters = {
                "ModelBaseUrl": base_url,
                "ModelName": "scripted",
                "ModelApiKeySecretArn": "",
                "CorsOrigins": CORS_ORIGIN,
                "ApiKeyHashes": f"local+catalog={_sha256(API_KEY)},other={_sha256('other-key')}",
            }
            stack = deploy(emulator, build(root, environment=environment, parameters=parameters))
            enter(emulator, stack, root)
            yield LocalLoop(emulator, stack)
        finally:
            stop(emulator)


def _sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@contextmanager
def front_door(loop: LocalLoop, *, log: Path | None = None) -> Iterator[httpx.Client]:
    """A client of the HTTP API of a stack, behind a front door of its own, whose log may go to a file."""
    port = free_port(0)
    command = [sys.executable, "-m", "local.front_door", "--port", str(port), "--tied"]
    environment = os.environ | {
        "STEPAGENT_API_URL": loop.stack.api_url,
        "STEPAGENT_API_KEY": API_KEY,
        "PYTHONPATH": str(ROOT / LIBRARY),
        "PYTHONUNBUFFERED": "1",  # its log is read while it runs
    }
    with (
        log.open("wb") if log else nullcontext() as output,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=output
        ) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=90, trust_env=False) as client,
    ):
        try:
            _wait_for(port)
            yield client
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    for _ in range(400):
        with socket.socket() as probing:
            if probing.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("the front door does not listen")
