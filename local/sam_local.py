"""Runs each sample event through `sam local invoke`: `python -m local.sam_local [FUNCTION[/SITUATION] …]`.

The functions run in containers, as SAM built them, against a local AWS of their own. Each event is answered twice on
the same record: by the function as `make up` runs it, and by the one in the container. Both must come to the same.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from local.build import build
from local.deploy import deploy
from local.emulator import start, stop
from local.sam import fixed_model
from local.sam.build import Project, SamFailed, sam_build, sam_invoke
from local.sam.engine import Engine, NoEngine, running_engine
from local.sam.image import NoBaseImage, find_python
from local.sam.record import SampleRecord, enter
from local.sam.relay import Relay
from local.sam.samples import Sample, find_samples, outcome_of
from local.sam.served import served
from local.sam.stack import SampleStack

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".local" / "sam-local"
SAM = ROOT / ".local" / "sam" / "bin" / "sam"


class Setting(NamedTuple):
    """All that an event needs in order to be answered."""

    project: Project
    engine: Engine
    record: SampleRecord
    stack: SampleStack
    variables: Mapping[str, str]


class Verdict(NamedTuple):
    """What an event came to in the container, and what was expected of it."""

    sample: Sample
    found: str
    expected: str
    seconds: float

    @property
    def line(self) -> str:
        state, detail = ("ok", self.found) if self.found == self.expected else ("FAILED", self._difference)
        return f"{state:6} {self.seconds:5.1f} s  {self.sample.name}  {detail[:160]}"

    @property
    def _difference(self) -> str:
        return f"{self.found[:400]}, expected {self.expected[:400]}"


def main() -> None:
    """Checks the samples that are named, or all; exit code 1 where one fails, 0 where no container can run."""
    signal.signal(signal.SIGTERM, _leave)  # so that what was started is stopped
    samples = find_samples(ROOT, sys.argv[1:])
    if not samples:
        sys.exit(f"No sample event has such a name: {' '.join(sys.argv[1:])}")
    try:
        failed = check(samples)
    except (NoEngine, NoBaseImage) as reason:
        print(f"Skipped: {reason}.")
        return
    except SamFailed as error:
        sys.exit(str(error))
    sys.exit(1 if failed else 0)


def check(samples: Iterable[Sample]) -> int:
    """Tells of each sample, and returns how many failed."""
    began, verdicts = time.monotonic(), []
    with running_engine() as engine, _setting(engine) as setting:
        print(f"Ready after {time.monotonic() - began:.0f} s.", flush=True)
        for sample in samples:
            verdict = judge(setting, sample)
            print(verdict.line, flush=True)
            verdicts.append(verdict)
    failed = sum(verdict.found != verdict.expected for verdict in verdicts)
    print(f"{len(verdicts) - failed} of {len(verdicts)} samples ok, {time.monotonic() - began:.0f} s.")
    return failed


@contextmanager
def _setting(engine: Engine) -> Iterator[Setting]:
    project = Project(ROOT, FOLDER, SAM, find_python())
    sam_build(project)
    with tempfile.TemporaryDirectory() as folder, served(fixed_model.app) as model_url:
        emulator = start(Path(folder))
        try:
            deployed = deploy(emulator, build(ROOT, environment={}, parameters={"ModelBaseUrl": model_url}))
            stack = SampleStack(emulator, ROOT)
            enter(stack.variables | emulator.environment | {"CATALOG_DIR": str(ROOT / "catalog")})
            with _relayed(emulator.endpoint, engine.gateway) as endpoint:
                variables = stack.variables | {"AWS_ENDPOINT_URL": endpoint, "CATALOG_DIR": "/opt"}
                yield Setting(project, engine, SampleRecord(emulator, deployed, ROOT), stack, variables)
        finally:
            stop(emulator)


@contextmanager
def _relayed(endpoint: str, gateway: str) -> Iterator[str]:
    with ExitStack() as opened:
        try:
            url = opened.enter_context(served(Relay(endpoint), gateway))
        except OSError as error:
            raise NoEngine(f"containers run on another machine: {gateway} is no address of this one") from error
        yield url


def judge(setting: Setting, sample: Sample) -> Verdict:
    """Lets the function answer in both places, each on a record of its own."""
    setting.record.lay_out(sample.function)
    expected = outcome_of(setting.stack.answer(sample))
    setting.record.lay_out(sample.function)
    began = time.monotonic()
    try:
        logical_id = setting.stack.logical_ids[sample.function]
        answer = sam_invoke(setting.project, setting.engine, logical_id, sample.path, setting.variables)
        found = outcome_of(answer)
    except SamFailed as error:
        found = str(error)
    return Verdict(sample, found, expected, time.monotonic() - began)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
