"""The container engine that `sam local` needs: the user's own, or one that is started by hand and stopped again."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.sam import image

_PACKAGES = ("docker.io", "busybox-static")
_START_S = 60
_STOP_S = 30
# Containers reach this machine, and nothing else: no rule of its firewall is touched.
_FLAGS = (
    *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    *("--bip", "172.30.0.1/24", "--exec-opt", "native.cgroupdriver=cgroupfs"),
)


class NoEngine(RuntimeError):
    """No container can run here; the message says why."""


@dataclass(frozen=True)
class Engine:
    """An engine that answers. `pulls`: whether a registry has what it lacks."""

    docker: str
    environment: Mapping[str, str]
    pulls: bool = True

    def run(self, *arguments: str) -> str:
        """What the command printed.

        Raises:
            NoEngine: it failed; the message has its own words.
        """
        done = self._try(*arguments)
        if done.returncode != 0:
            raise NoEngine(f"docker {arguments[0]}: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout.strip()

    def can(self, *arguments: str) -> bool:
        return self._try(*arguments).returncode == 0

    @property
    def gateway(self) -> str:
        """The address at which containers reach this machine."""
        return self.run("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")

    def _try(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, **self.environment}
        return subprocess.run([self.docker, *arguments], env=variables, capture_output=True, text=True, check=False)


def architecture() -> str:
    """This machine's, as Lambda names it."""
    return "arm64" if platform.machine() in {"arm64", "aarch64"} else "x86_64"


def base_image() -> str:
    """The image that SAM takes for functions of this machine's architecture."""
    return f"public.ecr.aws/lambda/python:{image.VERSION}-{architecture()}"


@contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine that has the base image or can pull it. One that was started for this ends with it, and its data goes.

    Raises:
        NoEngine: there is none, and none can be started.
    """
    own = _find()
    if own:
        yield _with_image(own)
        return
    _require_programs()
    with tempfile.TemporaryDirectory(prefix="stepagent-engine-") as folder, _started(Path(folder)) as engine:
        yield _with_made_image(engine, Path(folder))


def _find() -> Engine | None:
    docker = shutil.which("docker")
    engine = Engine(docker, {}) if docker else None
    return engine if engine and engine.can("version") else None


def _require_programs() -> None:
    """What starting one by hand needs, installed where this machine is a container of its own."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise NoEngine("no container engine answers, and only root can start one: start Docker, then try again")
    if all(map(shutil.which, ("dockerd", "docker", "busybox"))):
        return
    if Path("/run/systemd/system").exists() or not shutil.which("apt-get"):
        raise NoEngine("no container engine is installed: install Docker, then try again")
    print(f"Installing {' '.join(_PACKAGES)} …", flush=True)
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *_PACKAGES]):
        done = subprocess.run(["apt-get", *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoEngine(f"{' '.join(_PACKAGES)} cannot be installed: {done.stderr.strip()[-300:]}")


@contextmanager
def _started(folder: Path) -> Iterator[Engine]:
    socket = f"unix://{folder}/socket"
    places = ("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid")
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["dockerd", *_FLAGS, *places, "-H", socket],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches us alone, and we stop it in order
        )
    try:
        docker = shutil.which("docker")
        assert docker
        engine = Engine(docker, {"DOCKER_HOST": socket})
        _wait_ready(engine, process, log)
        yield engine
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(engine: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not engine.can("version"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoEngine(f"dockerd does not start: {' | '.join(log.read_text().splitlines()[-3:])}")
        time.sleep(0.1)


def _with_image(engine: Engine) -> Engine:
    """The user's engine: SAM pulls what it lacks, where a registry answers."""
    if engine.can("pull", "-q", base_image()):
        return engine
    if engine.can("image", "inspect", base_image()):
        return Engine(engine.docker, engine.environment, pulls=False)
    raise NoEngine(f"the image {base_image()} is not there and cannot be pulled")


def _with_made_image(engine: Engine, folder: Path) -> Engine:
    """An engine of our own takes the published image where it can, and one made from this machine where it cannot."""
    if engine.can("pull", "-q", base_image()):
        return engine
    archive = folder / "image.tar"
    try:
        image.write_root(archive, image.find_python())
    except image.NoBaseImage as missing:
        raise NoEngine(f"no registry has {base_image()}, and {missing}") from missing
    changes = [word for setting in image.SETTINGS for word in ("--change", setting)]
    engine.run("import", *changes, str(archive), base_image())
    archive.unlink()
    return Engine(engine.docker, engine.environment, pulls=False)
