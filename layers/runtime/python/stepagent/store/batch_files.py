"""A batch's files in the bucket: read in pieces, written from a file on disk, so that none has to fit memory."""

from collections.abc import Iterable, Iterator
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Any

from stepagent.errors import NotFound
from stepagent.settings import settings
from stepagent.store.clients import s3, translated

_CHUNK_BYTES = 1024 * 1024
_ABSENT = frozenset({"403", "404", "NoSuchKey", "NotFound", "AccessDenied"})  # 403 to whoever may not list


@translated()
def read_chunks(object_key: str) -> Iterator[bytes]:
    """The bytes of an object, in pieces.

    Raises:
        NotFound: there is none.
    """
    return _pieces(_open(object_key)["Body"])


def _pieces(body: Any) -> Iterator[bytes]:
    while True:
        with translated():
            piece = body.read(_CHUNK_BYTES)
        if not piece:
            return
        yield piece


@translated()
def read_range(object_key: str, at: int, size: int) -> bytes:
    """`size` bytes of an object from byte `at` on, or what there is of them, which is nothing behind its end.

    Raises:
        NotFound: there is no such object.
    """
    try:
        return bytes(_open(object_key, Range=f"bytes={at}-{at + size - 1}")["Body"].read())
    except s3().exceptions.ClientError as error:
        if error.response["Error"]["Code"] not in ("416", "InvalidRange"):
            raise
        return b""


@translated()
def read_object(object_key: str, limit_bytes: int) -> bytes:
    """A whole object, or its first bytes where it has more than the limit, and then one more than that.

    Raises:
        NotFound: there is none.
    """
    return bytes(_open(object_key)["Body"].read(limit_bytes + 1))


@translated()
def list_objects(prefix: str, most: int) -> list[str]:
    """The keys of the objects below a prefix, in the order of their bytes: `most` and one, where there are more."""
    pages = s3().get_paginator("list_objects_v2").paginate(Bucket=settings().bucket, Prefix=prefix)
    keys = (each["Key"] for page in pages for each in page.get("Contents", ()))
    return list(islice((key for key in keys if not key.endswith("/")), most + 1))


@translated()
def put_object(object_key: str, content: bytes) -> None:
    s3().put_object(Bucket=settings().bucket, Key=object_key, Body=content)


def write_lines(object_key: str, lines: Iterable[bytes]) -> None:
    """Writes an object, all of it or nothing; a line end is put behind each line."""
    with TemporaryFile() as file:
        file.writelines(line + b"\n" for line in lines)
        upload(object_key, file)


@translated()
def upload(object_key: str, file: IO[bytes]) -> None:
    """Writes what a file on disk holds into an object, all of it or nothing."""
    file.seek(0)
    s3().upload_fileobj(file, settings().bucket, object_key)


def _open(object_key: str, **more: Any) -> Any:
    try:
        return s3().get_object(Bucket=settings().bucket, Key=object_key, **more)
    except s3().exceptions.ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            raise NotFound(f"There is no object {object_key!r}.") from error
        raise
