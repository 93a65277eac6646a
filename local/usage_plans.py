"""Places of keys in API Gateway's usage plans, by which it counts and throttles each one's requests.

What API Gateway calls an API key is such a place here, under the id of our key and with a value of its own. It opens
nothing: the authorizer asks for our key, and names the place only then.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

_VALUE_BYTES = 20  # API Gateway takes 20 to 128 characters


class UsagePlanUnavailable(RuntimeError):
    """API Gateway did not do what it was asked; the message has its words."""


def enter_plan(key_id: str, plan_id: str) -> str:
    """Gives a key a place in a plan, and returns its value.

    Raises:
        UsagePlanUnavailable: there is no such plan, or nobody with these credentials may; nothing is left behind.
    """
    with _translated(f"The key cannot be put into the usage plan {plan_id}"):
        place = _gateway().create_api_key(name=key_id, value=secrets.token_hex(_VALUE_BYTES), enabled=True)
        try:
            _gateway().create_usage_plan_key(usagePlanId=plan_id, keyId=place["id"], keyType="API_KEY")
        except (BotoCoreError, ClientError):
            _gateway().delete_api_key(apiKey=place["id"])
            raise
    value: str = place["value"]
    return value


def leave_plan(key_id: str) -> None:
    """Takes a key's place away; nothing happens where it has none.

    Raises:
        UsagePlanUnavailable: nobody with these credentials may.
    """
    with _translated(f"The place of {key_id} in its usage plan cannot be taken away"):
        for page in _gateway().get_paginator("get_api_keys").paginate(nameQuery=key_id):
            for place in page["items"]:
                if place["name"] == key_id:
                    _gateway().delete_api_key(apiKey=place["id"])


def _gateway() -> Any:
    connect: Any = boto3.client  # its types demand a package for each service
    return connect("apigateway")


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise UsagePlanUnavailable(f"{what}: {error}") from error
