"""The record and the journal in this process: the emulator's DynamoDB without its server, so that conditions count."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from ministack.services import dynamodb as engine

from stepagent.settings import settings
from stepagent.store.clients import dynamodb
from stepagent.store.recent import recent

_TABLES = {"record-in-memory": {"pk": "S", "sk": "S"}, "journal-in-memory": {"run_id": "S", "n": "N"}}


@contextmanager
def tables_in_memory() -> Iterator[None]:
    """Empty tables, which the library uses for as long as this lasts."""
    record, journal = _TABLES
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RECORD_TABLE": record, "JOURNAL_TABLE": journal, "BUCKET": "none"}.items():
            patch.setenv(name, value)
        _forget()
        dynamodb().meta.events.register("before-send.dynamodb", _answer)  # type: ignore[arg-type]  # it may answer
        empty_tables()
        yield
    _forget()


def empty_tables() -> None:
    """Makes the tables in memory anew. A client costs more than they do."""
    engine.reset()
    recent.forget()
    for name, key in _TABLES.items():
        _create(name, key)


def _forget() -> None:
    settings.cache_clear()
    dynamodb.cache_clear()


def _create(name: str, key: dict[str, Any]) -> None:
    kinds: tuple[Any, ...] = ("HASH", "RANGE")
    dynamodb().create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": field, "AttributeType": type_} for field, type_ in key.items()],
        KeySchema=[{"AttributeName": field, "KeyType": kind} for field, kind in zip(key, kinds, strict=True)],
    )


class _Raw:
    """A body as botocore reads it. Stands for urllib3's response."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self._content


def _answer(request: AWSRequest, **_: Any) -> AWSResponse:
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    content = request.body if isinstance(request.body, bytes) else str(request.body).encode()
    status, sent, body = asyncio.run(engine.handle_request("POST", "/", headers, content, {}))
    return AWSResponse(str(request.url), status, sent, _Raw(body if isinstance(body, bytes) else body.encode()))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
