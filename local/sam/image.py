"""A base image for `sam local` where no registry has one: this machine's Python, laid out as AWS's own image is.

It stands in for `public.ecr.aws/lambda/python` as far as the functions see it: interpreter in /var/lang, runtime client
in /var/runtime, code in /var/task, layers in /opt.
"""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

VERSION = "3.13"
SETTINGS = (
    "WORKDIR /var/task",
    "ENV PATH=/var/lang/bin:/bin",
    "ENV LAMBDA_TASK_ROOT=/var/task",
    "ENV LAMBDA_RUNTIME_DIR=/var/runtime",
)

_BOOTSTRAP = f"""#!/bin/sh
export PYTHONPATH="$LAMBDA_TASK_ROOT:/opt/python:$LAMBDA_RUNTIME_DIR"
exec ${{AWS_LAMBDA_EXEC_WRAPPER:-}} /var/lang/bin/python{VERSION} -m awslambdaric "$_HANDLER"
"""
_NOT_NEEDED = {"test", "idlelib", "tkinter", "turtledemo", "ensurepip", "site-packages", "__pycache__"}
_OF_DESKTOPS = ("_tkinter",)  # its libraries are many
_OF_WHEELS = (  # which packages with native code may load, as the standard of their wheels says
    *("libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"),
    *("libutil.so.1", "libresolv.so.2", "libnsl.so.1", "libnss_dns.so.2", "libnss_files.so.2"),
)
_SHELL_NAMES = ("sh", "mv", "cp", "rm", "chmod", "mkdir")  # what SAM's Dockerfile and our scripts call


class NoBaseImage(RuntimeError):
    """The image cannot be made; the message says what is missing."""


def find_python() -> Path:
    """The folder that holds bin/python3.13 with its library. A shim of pyenv may be there and not run.

    Raises:
        NoBaseImage: there is none.
    """
    of_pyenv = Path.home().glob(f".pyenv/versions/{VERSION}*/bin/python")
    for program in filter(None, [shutil.which(f"python{VERSION}"), *map(str, of_pyenv)]):
        asked = [program, "-c", "import sys; print(sys.base_prefix)"]
        answered = subprocess.run(asked, capture_output=True, text=True, check=False)
        if answered.returncode == 0:
            return Path(answered.stdout.strip())
    raise NoBaseImage(f"there is no Python {VERSION} on this machine, which `sam build` needs too")


def write_root(archive_path: Path, python: Path) -> None:
    """Writes the image's file system as a tar archive.

    Raises:
        NoBaseImage: a part of it is missing on this machine.
    """
    shell = shutil.which("busybox")
    if shell is None:
        raise NoBaseImage("there is no busybox on this machine: apt-get install busybox-static")
    runtime = archive_path.parent / "runtime"
    _install_runtime(python, runtime)
    with tarfile.open(archive_path, "w") as archive:
        archive.add(shell, "bin/busybox")
        for name in _SHELL_NAMES:
            _link(archive, f"bin/{name}", "busybox")
        archive.add(python / f"bin/python{VERSION}", f"var/lang/bin/python{VERSION}")
        for name in ("python", "python3"):
            _link(archive, f"var/lang/bin/{name}", f"python{VERSION}")
        archive.add(python / f"lib/python{VERSION}", f"var/lang/lib/python{VERSION}", filter=_needed)
        archive.add(runtime, "var/runtime")
        _write(archive, "var/runtime/bootstrap", _BOOTSTRAP)
        for library in _libraries(python):
            archive.add(library.resolve(), str(library).lstrip("/"))
        _write_folder(archive, "tmp", 0o1777)


def _install_runtime(python: Path, target: Path) -> None:
    """The runtime client, in the version that the local stack has."""
    wanted = f"awslambdaric=={metadata.version('awslambdaric')}"
    command = [str(python / f"bin/python{VERSION}"), "-m", "pip", "install", "-q", "--target", str(target), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoBaseImage(f"{wanted} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")


def _libraries(python: Path) -> list[Path]:
    """Every shared library that the interpreter, its modules and packages load, where each is looked for."""
    programs = [python / f"bin/python{VERSION}"]
    modules = (python / f"lib/python{VERSION}/lib-dynload").glob("*.so")
    programs += [module for module in modules if not module.name.startswith(_OF_DESKTOPS)]
    found = {library for program in programs for library in _loaded(program)}
    [libc] = [library for library in found if library.name.startswith("libc.so")]
    return sorted(found | {path for name in _OF_WHEELS if (path := libc.parent / name).exists()})


def _loaded(program: Path) -> Iterator[Path]:
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    yield from parse_ldd(listed)


def parse_ldd(listed: str) -> Iterator[Path]:
    """The paths in the lines `libz.so.1 => /lib/libz.so.1 (0x…)` and `/lib64/ld-linux.so.2 (0x…)`."""
    for line in listed.splitlines():
        words = line.split()
        path = words[2] if "=>" in words and len(words) > 2 else words[0] if words else ""
        if path.startswith("/"):
            yield Path(path)


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = os.path.basename(entry.name)
    return None if name in _NOT_NEEDED or name.startswith((*_OF_DESKTOPS, "config-")) else entry


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


def _write(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry, content = tarfile.TarInfo(name), text.encode()
    entry.mode, entry.size = 0o755, len(content)
    archive.addfile(entry, io.BytesIO(content))


def _write_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)
