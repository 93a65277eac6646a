"""What is deployed on this machine, and with which settings."""

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.build import CATALOG, LIBRARY, Build, build
from local.deploy import STACK_NAME, Stack, client, deploy
from local.emulator import Emulator
from local.model_choice import ModelChoice
from stepagent.catalog import load_catalog
from stepagent.errors import ConfigurationError

ROOT = Path(__file__).resolve().parent.parent
DOOR_MODULES = ("front_door.py", "front_page.py", "callers.py")  # of this folder, in the front door's process
_PATIENCE_S = 600  # a model on this machine may read a prompt for minutes while something else is running
SECRET_NAME = "stepagent/model-api-key"  # noqa: S105 (a name, no secret)


class CatalogWrong(RuntimeError):
    """An agent or a tool is described wrongly."""


@dataclass(frozen=True)
class Release:
    """A build with the settings of one choice of model. `fingerprint` differs when anything that runs would."""

    build: Build
    api_key: str
    fingerprint: str


def prepare(folder: Path, emulator: Emulator, choice: ModelChoice, model_url: str) -> Release:
    """Check the catalog, put the model's key where the functions look for it, and build.

    Raises:
        CatalogWrong: a row is wrong; the message says which.
    """
    _check_catalog()
    api_key = _api_key(folder / "api-key")
    secret_arn, version = _store_model_key(emulator, choice.api_key)
    parameters = {
        "ModelName": choice.name,
        "ModelBaseUrl": model_url,
        "ModelApiKeySecretArn": secret_arn,
        "HttpAllowedHosts": os.environ.get("HTTP_ALLOWED_HOSTS", ""),
        "ApiKeyHashes": f"local+catalog={hashlib.sha256(api_key.encode()).hexdigest()}",
    }
    # The version is for nobody to read: with a new key it replaces warm functions, which remember the old one.
    environment = {**emulator.environment, "LOCAL_MODEL_KEY_VERSION": version, "MODEL_IDLE_TIMEOUT_S": str(_PATIENCE_S)}
    if choice.embedded:  # its server has it write by a grammar, so that a small model keeps to a form
        environment |= {"MODEL_RESPONSE_FORMAT": "schema"}
    # Whoever starts the stack may let its tools call the services of this machine.
    environment |= {name: os.environ[name] for name in ("HTTP_ALLOW_PRIVATE",) if name in os.environ}
    built = build(ROOT, environment=environment, parameters=parameters)
    return Release(built, api_key, _fingerprint(built, choice.label))


def _check_catalog() -> None:
    """Finds a mistake before anything starts: later only a function's log would tell of it."""
    try:
        load_catalog(ROOT / CATALOG)
    except ConfigurationError as error:
        raise CatalogWrong(f"The catalog is not right. {error.message}") from error


def roll_out(emulator: Emulator, release: Release) -> dict[str, str]:
    """Deploy, and return the environment that the front door runs in."""
    stack = deploy(emulator, release.build)
    return _door_environment(emulator, stack, release.api_key)


def _api_key(path: Path) -> str:
    """The key between the front door and the REST API, made at the first start; nobody else needs it."""
    with suppress(FileExistsError), os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"sk-local-{secrets.token_urlsafe(24)}")
    return path.read_text().strip()


def _store_model_key(emulator: Emulator, key: str) -> tuple[str, str]:
    """The secret's ARN and version, both empty without a key; a key that is no longer used is forgotten."""
    manager = client(emulator, "secretsmanager")
    try:
        found = manager.get_secret_value(SecretId=SECRET_NAME)
    except manager.exceptions.ResourceNotFoundException:
        found = None
    if not key:
        if found:
            manager.delete_secret(SecretId=SECRET_NAME, ForceDeleteWithoutRecovery=True)
        return "", ""
    if not found:
        found = manager.create_secret(Name=SECRET_NAME, SecretString=key)
    elif found["SecretString"] != key:
        found = manager.put_secret_value(SecretId=SECRET_NAME, SecretString=key)
    return found["ARN"], found["VersionId"]


def _fingerprint(built: Build, model: str) -> str:
    """The build leaves out the streaming function, which the front door runs itself, and the embedded model's file."""
    files = [*sorted((ROOT / "functions" / "stream").glob("*.py")), *(ROOT / "local" / name for name in DOOR_MODULES)]
    parts = [built.digest.encode(), model.encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _door_environment(emulator: Emulator, stack: Stack, api_key: str) -> dict[str, str]:
    """The settings that the template gives to the API function: the streaming function has the same."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,
        **_variables(emulator, "ApiFunction"),
        **emulator.environment,
        "PYTHONPATH": f"{ROOT / LIBRARY}{os.pathsep}{ROOT}",
        "STEPAGENT_API_URL": stack.api_url,
        "STEPAGENT_API_KEY": api_key,
    }


def _variables(emulator: Emulator, logical_id: str) -> dict[str, str]:
    found = client(emulator, "cloudformation").describe_stack_resource(
        StackName=STACK_NAME, LogicalResourceId=logical_id
    )
    name: Any = found["StackResourceDetail"]["PhysicalResourceId"]
    configuration = client(emulator, "lambda").get_function_configuration(FunctionName=name)
    variables: dict[str, str] = configuration["Environment"]["Variables"]
    return variables
