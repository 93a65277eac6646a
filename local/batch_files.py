"""The files of a batch on this machine: its inputs, put into the local stack's bucket, and what came of them."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from local import emulator, stack
from local.deploy import STACK_NAME, client

_OWNER = "local"  # whoever uses the local API without a key


class FileUnusable(RuntimeError):
    """The file of inputs cannot be read; the message says why."""


class InputFile(NamedTuple):
    """A file of inputs. `name` tells it from others, and from itself with another content."""

    path: Path
    content: bytes
    name: str


def read_input_file(path: Path) -> InputFile:
    """Reads a file of inputs.

    Raises:
        FileUnusable: it is not named, not there, or empty.
    """
    if path == Path():
        raise FileUnusable("Say which file, such as make batch FILE=questions.jsonl; each of its lines is an input.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileUnusable(f"{path} cannot be read: {error.strerror}.") from error
    if not content.strip():
        raise FileUnusable(f"{path} is empty; each of its lines is to be an input.")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-_")[:40] or "batch"
    return InputFile(path, content, f"{stem}-{hashlib.sha256(content).hexdigest()[:8]}")


def upload(file: InputFile) -> str:
    """Puts a file of inputs into the bucket of the stack that runs; returns the object's key."""
    found = emulator.find(stack.home() / "aws")
    if found is None:
        raise FileUnusable("The local AWS does not run. `make up` starts it.")
    outputs = client(found, "cloudformation").describe_stacks(StackName=STACK_NAME)["Stacks"][0]["Outputs"]
    [bucket] = [each["OutputValue"] for each in outputs if each["OutputKey"] == "Bucket"]
    key = f"batches/inputs/{_OWNER}/{file.name}{file.path.suffix.lower()}"
    client(found, "s3").put_object(Bucket=bucket, Key=key, Body=file.content)
    return key


def beside(path: Path, kind: str) -> Path:
    """Where what came of a file's inputs is written: `questions.jsonl` has `questions.results.jsonl` beside it."""
    return path.with_name(f"{path.stem}.{kind}.jsonl")


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> int:
    """Writes one JSON object a line, all or nothing; returns how many there are."""
    unfinished, count = path.with_name(f".{path.name}.part"), 0
    with unfinished.open("w") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    unfinished.replace(path)
    return count
