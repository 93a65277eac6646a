"""Clients, made on first use and kept for the life of the process."""

from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient
    from types_boto3_s3.client import S3Client

# Short time-outs: a request of ours is answered in milliseconds or not at all. Standard mode retries throttling.
_CONFIG = Config(
    connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}, tcp_keepalive=True
)


@cache
def dynamodb() -> "DynamoDBClient":
    return boto3.client("dynamodb", config=_CONFIG)


@cache
def s3() -> "S3Client":
    return boto3.client("s3", config=_CONFIG)
