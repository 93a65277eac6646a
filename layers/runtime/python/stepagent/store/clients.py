"""Clients, made on first use and kept for the life of the process."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepagent.errors import RecordUnavailable

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient
    from types_boto3_s3.client import S3Client

_ANSWERS = frozenset({"ConditionalCheckFailedException", "TransactionCanceledException"})

# Short time-outs: a request of ours is answered in milliseconds or not at all. Standard mode retries throttling.
_CONFIG = Config(
    connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}, tcp_keepalive=True
)


@contextmanager
def translated() -> Iterator[None]:
    """Failures of the service, as ours. What a caller reacts to, such as a condition that did not hold, passes.

    Raises:
        RecordUnavailable: the service did not take the request; its own words are the cause.
    """
    try:
        yield
    except BotoCoreError as error:
        raise RecordUnavailable(f"The record cannot be reached ({type(error).__name__}).") from error
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in _ANSWERS:
            raise
        raise RecordUnavailable(f"The record did not take a request ({code}).") from error


@cache
def dynamodb() -> "DynamoDBClient":
    return boto3.client("dynamodb", config=_CONFIG)


@cache
def s3() -> "S3Client":
    return boto3.client("s3", config=_CONFIG)
