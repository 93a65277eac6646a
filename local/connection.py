"""The API of a stack: of the one on this machine, or of a deployed one."""

import os
from typing import Any

from local import stack
from local.api_client import ApiClient

KEY_VARIABLE = "STEPAGENT_API_KEY"


class NotConnected(RuntimeError):
    """There is no stack to ask; the message says what is missing."""


def connect(deployed: str) -> ApiClient:
    """A client of the local stack, or of the deployed one of this name, with the key of `STEPAGENT_API_KEY`.

    Raises:
        NotConnected: the local stack does not run, the deployed one is not found, or there is no key.
    """
    if not deployed:
        running = stack.find(stack.home())
        if running is None:
            raise NotConnected(
                "Nothing is running. `make up` starts the local stack; STACK=name (or --stack) asks a deployed one."
            )
        return ApiClient(running.base_url)
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise NotConnected(
            f"{KEY_VARIABLE} has no key of {deployed}. `make api-key NAME=me STACK={deployed}` makes one; "
            "whoever has the key of a run sees it."
        )
    return ApiClient(_base_url(deployed), key)


def _base_url(name: str) -> str:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        connect: Any = boto3.client
        found = connect("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    except (BotoCoreError, ClientError) as error:
        raise NotConnected(
            f"The stack {name} cannot be looked up: {error}\nAWS_PROFILE and AWS_DEFAULT_REGION say where."
        ) from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}
    if "BaseUrl" not in outputs:
        raise NotConnected(f"{name} is no stack of StepAgent: it has no output BaseUrl.")
    return str(outputs["BaseUrl"])
