"""Documents in the bucket, as text."""

from collections.abc import Iterator
from typing import NamedTuple

from stepagent.observe import logger
from stepagent.settings import settings
from stepagent.store.clients import s3, translated

_SUFFIXES = (".md", ".txt")
_MAX_BYTES = 20_000_000  # of all documents: they are read when a function starts, and held in its memory


class Document(NamedTuple):
    """A text and its name, below the prefix."""

    name: str
    text: str


@translated()
def read_documents(prefix: str) -> list[Document]:
    """Every Markdown or text file below a prefix, in order; those that would make more than 20 MB are left out."""
    documents, total = [], 0
    for key, size in _listed(prefix):
        total += size
        if total > _MAX_BYTES:
            logger.warning("documents left out", extra={"prefix": prefix, "from": key, "limit_bytes": _MAX_BYTES})
            break
        content = s3().get_object(Bucket=settings().bucket, Key=key)["Body"].read()
        documents.append(Document(key.removeprefix(prefix), content.decode("utf-8-sig", "replace")))
    return documents


def _listed(prefix: str) -> Iterator[tuple[str, int]]:
    for page in s3().get_paginator("list_objects_v2").paginate(Bucket=settings().bucket, Prefix=prefix):
        for each in page.get("Contents", ()):
            if each["Key"].endswith(_SUFFIXES):
                yield each["Key"], each["Size"]
