"""Make the virtual environment and install packages into it: `python3 local/install.py VENV REQUIREMENTS`.

Runs under whatever `python3` is, before anything is installed: standard library only, and no syntax newer than 3.6,
so that an old Python prints a sentence and not a syntax error.
"""

import os
import subprocess
import sys
import time
import venv
from typing import Iterable, TextIO  # noqa: UP035 (see above)

NEEDED = (3, 11)


def main() -> None:
    """Install, showing one line that moves; what pip said is in a log beside the environment."""
    folder, requirements = sys.argv[1:]
    if sys.version_info < NEEDED:
        found = ".".join(str(number) for number in sys.version_info[:3])
        sys.exit(f"Python 3.11 or newer is needed; {sys.executable} is {found}.\nName one: make PYTHON=python3.12 ...")
    started = time.monotonic()
    log = os.path.join(os.path.dirname(folder), "install.log")
    try:
        make_environment(folder)
        if not pip_install(folder, requirements, log):
            sys.exit(f"\nThe packages of {requirements} could not be installed.\n{errors(log)}All of it: {log}")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. The next `make` goes on with it.")
    show(f"Packages of {requirements} installed in {time.monotonic() - started:.0f} s.", "\n")


def make_environment(folder: str) -> None:
    """A new environment where there is none, or where its Python is gone."""
    if os.path.exists(os.path.join(folder, "bin", "pip")):
        return
    show(f"Making a virtual environment in {folder} ...")
    try:
        venv.create(folder, clear=True, symlinks=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"\nNo virtual environment could be made: {error}\nOn Debian and Ubuntu: apt install python3-venv")


def pip_install(folder: str, requirements: str, log: str) -> bool:
    """Whether pip succeeded. Its output goes to the log, of which we show what moves."""
    pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    command = [*pip, "--no-input", "--progress-bar=off", "-r", requirements]
    show(f"Installing the packages of {requirements} ...")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    with open(log, "w") as target:
        copy(process.stdout or (), target)
    return process.wait() == 0


def copy(lines: Iterable[str], target: TextIO) -> None:
    """Write every line to the log, and tell which package it is about."""
    seen = 0
    for line in lines:
        target.write(line)
        word, _, rest = line.strip().partition(" ")
        seen += word == "Collecting"
        if word in ("Collecting", "Downloading"):
            show(f"Installing packages ... {seen} {os.path.basename(rest.split(' (from')[0])}")
        elif word == "Installing":
            show(f"Installing packages ... {seen} found, unpacking")


def errors(log: str) -> str:
    """What pip calls errors, as whole lines."""
    with open(log, errors="replace") as lines:
        return "".join([line for line in lines if line.startswith("ERROR")][:3])


def show(text: str, end: str = "") -> None:
    """One line, which the next one replaces on a terminal; elsewhere the moving ones are left out."""
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K" + text[:78] + end)
    elif not text.startswith("Installing packages"):
        sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
