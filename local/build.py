"""The product's template and code, made ready for the local AWS.

What differs from AWS is all here: functions run under this Python as custom runtimes, layers are folders instead of
archives, and what only AWS can host is left out. Nothing of the product is changed for it.
"""

import hashlib
import io
import json
import shlex
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from local.fork_server import START_SCRIPT

CODE_BUCKET = "local-code"
LIBRARY = Path("layers/runtime/python")
CATALOG = Path("catalog")

Resource = dict[str, Any]


@dataclass(frozen=True)
class Build:
    """A template that CloudFormation on the emulator accepts, and the objects it expects in `CODE_BUCKET`.

    Keys are hashes of the contents, so two builds deploy the same exactly when their templates are equal.
    """

    template: str
    objects: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Names what would be deployed."""
        return hashlib.sha256(self.template.encode()).hexdigest()


def build(root: Path, *, environment: Mapping[str, str], parameters: Mapping[str, str]) -> Build:
    """Return the local form of `root`'s template.

    Args:
        root: the repository.
        environment: variables added to every function; they win over the template's own.
        parameters: the template's parameters that differ from their defaults, or have none.
    """
    root = root.resolve()  # functions run in folders of their own
    template = yaml_parse((root / "template.yaml").read_text())
    objects: dict[str, bytes] = {}
    for name, value in parameters.items():
        template["Parameters"][name]["Default"] = value
    template.get("Globals", {}).get("Function", {}).pop("Layers", None)
    _name_contents(template, root)
    _count_nobody(template)
    _leave_out(template, {name for name, resource in template["Resources"].items() if _only_on_aws(resource)})
    runtime = _runtime(root)
    for resource in template["Resources"].values():
        match resource["Type"]:
            case "AWS::Serverless::Function":
                properties = _as_custom_runtime(
                    resource["Properties"], {"CATALOG_DIR": str(root / CATALOG), **environment}
                )
                properties["CodeUri"] = _add(objects, _archive(root / properties["CodeUri"], runtime))
                resource["Properties"] = properties
            case "AWS::Serverless::StateMachine":
                definition = _definition(root / resource["Properties"]["DefinitionUri"])
                resource["Properties"]["DefinitionUri"] = _add(objects, definition)
    return Build(json.dumps(template, default=str), objects)


def _name_contents(template: Resource, root: Path) -> None:
    """What is done again when a layer has another version is done here when its folder has another content."""
    for resource in template["Resources"].values():
        if resource["Type"] == "Custom::Catalog":
            resource["Properties"] |= {"Catalog": _digest(root / CATALOG), "Library": _digest(root / LIBRARY)}


def _count_nobody(template: Resource) -> None:
    """The emulator looks for a usage plan's key in a header alone, and not in what the authorizer says."""
    for resource in template["Resources"].values():
        resource.get("Properties", {}).get("Auth", {}).pop("ApiKeyRequired", None)


def _only_on_aws(resource: Resource) -> bool:
    """True for layers, whose content is on this machine already, and for web servers behind the Web Adapter."""
    environment = resource.get("Properties", {}).get("Environment", {}).get("Variables", {})
    return resource["Type"] == "AWS::Serverless::LayerVersion" or "AWS_LAMBDA_EXEC_WRAPPER" in environment


def _leave_out(template: Resource, names: set[str]) -> None:
    """Drop these resources, and in turn whatever refers to one that is dropped."""
    resources, outputs = template["Resources"], template.get("Outputs", {})
    for resource in resources.values():
        resource.get("Properties", {}).pop("Layers", None)
    dropped = set(names)
    while more := {name for name, item in resources.items() if name not in dropped and _refers(item, dropped)}:
        dropped |= more
    template["Resources"] = {name: item for name, item in resources.items() if name not in dropped}
    template["Outputs"] = {name: item for name, item in outputs.items() if not _refers(item, dropped)}


def _refers(item: object, names: set[str]) -> bool:
    text = json.dumps(item, default=str)
    return any(mark in text for name in names for mark in (f'"{name}"', f"${{{name}}}", f"${{{name}."))


def _as_custom_runtime(properties: Resource, environment: Mapping[str, str]) -> Resource:
    """The emulator's own Python worker hides the names of exceptions; its custom runtime does not."""
    variables = properties.get("Environment", {}).get("Variables", {})
    return {
        **properties,
        "Runtime": "provided.al2023",
        "Architectures": ["x86_64"],
        "Environment": {"Variables": {**variables, **environment}},
    }


def _definition(path: Path) -> bytes:
    """The emulator reads JSON only. A placeholder arrives as text there, so none may stand for a number."""
    return json.dumps(yaml_parse(path.read_text())).encode()


def _runtime(root: Path) -> dict[str, str]:
    """The files that start a function: the executable, and the script that it runs, which a forked process runs too.

    They name the library's content, so that a change of it replaces warm workers.
    """
    bootstrap = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$LAMBDA_TASK_ROOT/{START_SCRIPT}"\n'
    start = (
        f"# {_digest(root / LIBRARY)} {_digest(root / CATALOG)}\n"
        "import os, sys\n"
        f"sys.path.insert(0, {str(root / LIBRARY)!r})\n"
        "from awslambdaric.__main__ import main\n"
        'main(["", os.environ["_HANDLER"]])\n'
    )
    return {"bootstrap": bootstrap, START_SCRIPT: start}


def _archive(folder: Path, runtime: Mapping[str, str]) -> bytes:
    """The same bytes for the same content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
        for name, text in runtime.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, text)
    return buffer.getvalue()


def _add(objects: dict[str, bytes], content: bytes) -> dict[str, str]:
    key = hashlib.sha256(content).hexdigest()
    objects[key] = content
    return {"Bucket": CODE_BUCKET, "Key": key}


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
