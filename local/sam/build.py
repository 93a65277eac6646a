"""The product as `sam local invoke` runs it: built by SAM for this machine, and told where the emulator is."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from samtranslator.yaml_helper import yaml_parse

from local.emulator import ACCOUNT_ID, REGION
from local.sam.engine import Engine, architecture
from local.sam.image import VERSION

ADAPTER_LAYER = "LocalWebAdapterLayer"
_ADAPTER = "#!/bin/sh\nexec python3 /opt/web_adapter.py\n"
_GIVEN = "AWS_ENDPOINT_URL"  # SAM hands on variables that the template names, and no others
_MAX_S = 600  # more is a hang; the first event waits for an image to be built


class SamFailed(RuntimeError):
    """SAM did not do what it was told; the message is the end of what it said."""


class Project(NamedTuple):
    """Where SAM reads and writes. `python` is the folder of the Python that it builds with."""

    root: Path
    folder: Path
    sam: Path
    python: Path

    @property
    def log(self) -> Path:
        """All that SAM and the functions said."""
        return self.folder / "sam.log"


def local_template(template: dict[str, Any], root: Path, adapter: Path, arch: str) -> dict[str, Any]:
    """The template for this machine's processor, with a stand-in in place of the Web Adapter's layer."""
    function = template["Globals"]["Function"]
    function["Architectures"] = [arch]
    function["Environment"]["Variables"][_GIVEN] = ""
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            properties.pop("CompatibleArchitectures", None)
            properties["ContentUri"] = str(root / properties["ContentUri"])  # SAM leaves layers where they are
            if "BuildArchitecture" in resource.get("Metadata", {}):
                resource["Metadata"]["BuildArchitecture"] = arch
        elif "AWS_LAMBDA_EXEC_WRAPPER" in properties.get("Environment", {}).get("Variables", {}):
            properties["Layers"] = [*_own_layers(properties["Layers"]), {"Ref": ADAPTER_LAYER}]
    layer = {"ContentUri": str(adapter), "CompatibleRuntimes": [function["Runtime"]]}
    template["Resources"][ADAPTER_LAYER] = {"Type": "AWS::Serverless::LayerVersion", "Properties": layer}
    return template


def _own_layers(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [layer for layer in layers if set(layer) == {"Ref"}]


def sam_build(project: Project) -> None:
    """Builds all functions and layers.

    Raises:
        SamFailed: it could not.
    """
    adapter = project.folder / "adapter"
    adapter.mkdir(parents=True, exist_ok=True)
    project.log.write_text("")
    (adapter / "web_adapter.py").write_text((project.root / "local" / "sam" / "web_adapter.py").read_text())
    (adapter / "bootstrap").write_text(_ADAPTER)
    (adapter / "bootstrap").chmod(0o755)
    source = yaml_parse((project.root / "template.yaml").read_text())
    template = local_template(source, project.root, adapter, architecture())
    (project.folder / "template.json").write_text(json.dumps(template, default=str))
    options = ["-t", f"{project.folder}/template.json", "--base-dir", str(project.root)]
    places = ["--build-dir", f"{project.folder}/build", "--cache-dir", f"{project.folder}/cache", "--cached"]
    done = _sam(project, ["build", *options, *places])
    if done.returncode != 0:
        raise SamFailed(f"sam build: {_end(done)}")


def sam_invoke(project: Project, engine: Engine, logical_id: str, event: Path, variables: Mapping[str, str]) -> Any:
    """What the function answers to the event, its error too: SAM ends with 0 either way.

    Raises:
        SamFailed: there is no answer.
    """
    settings = project.folder / "variables.json"
    settings.write_text(json.dumps({"Parameters": dict(variables)}))
    options = ["-t", f"{project.folder}/build/template.yaml", "-n", str(settings), "-e", str(event)]
    pull = [] if engine.pulls else ["--skip-pull-image"]
    done = _sam(project, ["local", "invoke", logical_id, *options, *pull], engine.environment)
    answer = done.stdout.strip().splitlines()
    if done.returncode != 0 or not answer:
        raise SamFailed(f"sam local invoke {logical_id}: {_end(done)}")
    try:
        return json.loads(answer[-1])
    except ValueError as error:
        raise SamFailed(f"{logical_id} answers no JSON: {answer[-1][:200]!r}") from error


def _sam(project: Project, arguments: list[str], more: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    variables = {
        **os.environ,
        "PATH": f"{project.python}/bin{os.pathsep}{os.environ['PATH']}",
        "BUILD_PYTHON": str(project.python / "bin" / f"python{VERSION}"),
        "BUILD_ARCHITECTURE": architecture(),
        "SAM_CLI_TELEMETRY": "0",
        "AWS_ACCESS_KEY_ID": ACCOUNT_ID,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        **more,
    }
    variables.pop("AWS_PROFILE", None)
    command = [str(project.sam), *arguments]
    try:
        done = subprocess.run(
            command, cwd=project.root, env=variables, capture_output=True, text=True, check=False, timeout=_MAX_S
        )
    except subprocess.TimeoutExpired as error:
        raise SamFailed(f"sam {arguments[0]} did not end within {_MAX_S} s") from error
    with project.log.open("a") as log:
        log.write(f"$ sam {' '.join(arguments)}\n{done.stderr}\n{done.stdout}\n")
    return done


def _end(done: subprocess.CompletedProcess[str]) -> str:
    return " | ".join((done.stderr or done.stdout).strip().splitlines()[-4:])
