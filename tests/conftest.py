"""What every test stands on: no network beyond this machine, no real account, no setting of another test."""

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stepagent.settings import settings
from tests.scripted_model import ScriptedModel

_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})
_NOBODY = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "eu-central-1",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_REAL = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "OPENAI_API_KEY")

# Here and not in a fixture: a client that a test module makes at import must not find an account either.
os.environ.update(_NOBODY)
for _name in _REAL:
    os.environ.pop(_name, None)


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """Lets sockets connect to this machine alone, whatever library opens them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        yield


def _guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
    def connect_here(opened: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and address[0] not in _THIS_MACHINE:
            opened.close()  # else its warning would hide the reason
            raise AssertionError(f"a test tried to reach {address[0]}")
        return connect(opened, address)

    return connect_here


@pytest.fixture(autouse=True, scope="module")
def _nobodys_environment(request: pytest.FixtureRequest) -> Iterator[None]:
    """Gives unit tests the account of nobody again: the local stack, which others leave running, has one of its own."""
    if "unit" not in request.path.parts:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _NOBODY.items():
            patch.setenv(name, value)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        settings.cache_clear()
        yield
    settings.cache_clear()


@pytest.fixture
def set_environment() -> Iterator[Callable[..., None]]:
    """Sets environment variables for one test; the settings are read anew with them, and anew after it."""
    with pytest.MonkeyPatch.context() as patch:

        def set_variables(**variables: str) -> None:
            for name, value in variables.items():
                patch.setenv(name, value)
            settings.cache_clear()

        yield set_variables
    settings.cache_clear()


@pytest.fixture(scope="session")
def endless_model() -> Iterator[ScriptedModel]:
    """One scripted model for all tests."""
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def model(endless_model: ScriptedModel) -> ScriptedModel:
    """The scripted model with nothing on it."""
    endless_model.reset()
    return endless_model
