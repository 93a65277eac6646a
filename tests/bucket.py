"""The bucket in this process: the emulator's S3 without its server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from ministack.services import s3 as engine

from stepagent.settings import settings
from stepagent.store.clients import s3

_NAME = "bucket-in-memory"


@contextmanager
def bucket_in_memory() -> Iterator[None]:
    """An empty bucket, which the library uses for as long as this lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUCKET", _NAME)
        patch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")  # answered before it is called; keys stand in paths
        settings.cache_clear()
        s3.cache_clear()
        s3().meta.events.register("before-send.s3", _answer)  # type: ignore[arg-type]  # it may answer
        empty_bucket()
        yield
    settings.cache_clear()
    s3.cache_clear()


def empty_bucket() -> None:
    engine.reset()
    region: Any = {"LocationConstraint": s3().meta.region_name}
    s3().create_bucket(Bucket=_NAME, CreateBucketConfiguration=region)


def put(key: str, content: str) -> None:
    s3().put_object(Bucket=_NAME, Key=key, Body=content.encode())


def read(key: str) -> str:
    return s3().get_object(Bucket=_NAME, Key=key)["Body"].read().decode()


class _Raw:
    """A body as botocore reads it. Stands for urllib3's response."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, amount: int | None = None) -> bytes:
        size = len(self._content) if amount is None else amount
        piece, self._content = self._content[:size], self._content[size:]
        return piece

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


def _answer(request: AWSRequest, **_: Any) -> AWSResponse:
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    url = urlsplit(str(request.url))
    status, sent, body = asyncio.run(
        engine.handle_request(
            str(request.method), url.path, headers, _content(request.body), parse_qs(url.query, keep_blank_values=True)
        )
    )
    return AWSResponse(str(request.url), status, sent, _Raw(body if isinstance(body, bytes) else body.encode()))


def _content(body: Any) -> bytes:
    if hasattr(body, "read"):
        return bytes(body.read())
    return body if isinstance(body, bytes) else str(body or "").encode()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
