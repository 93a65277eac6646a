"""Objects of the inbox bucket: read as they were when they were told of, as text, and no more than was asked for."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stepagent.errors import InvalidRequest, NotFound, RecordUnavailable
from stepagent.settings import settings
from stepagent.store import inbox as subject
from stepagent.store.clients import s3
from stepagent.store.inbox import read_object_text
from tests import bucket


@pytest.fixture(autouse=True)
def inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with bucket.bucket_in_memory():
        monkeypatch.setenv("INBOX_BUCKET", settings().bucket)
        settings.cache_clear()
        yield


def put(content: bytes) -> str:
    """The tag of a new object."""
    return s3().put_object(Bucket=settings().inbox_bucket, Key="a", Body=content)["ETag"].strip('"')


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"tea", "tea"), (b"", ""), (b"\xef\xbb\xbftea", "tea"), (b"0123456789x", "0123456789"), (b"a\xff", "a\ufffd")],
)
def test_beginning_of_an_object_is_its_text(content: bytes, expected: str) -> None:
    assert read_object_text("a", put(content), 10) == expected


def test_object_is_read_as_it_is_when_no_tag_is_known() -> None:
    put(b"tea")
    assert read_object_text("a", "", 10) == "tea"


def test_object_is_refused_when_it_is_gone() -> None:
    with pytest.raises(NotFound) as refused:
        read_object_text("other", put(b"tea"), 10)
    assert refused.value.error_code == "object_gone"


def test_object_is_refused_when_it_was_written_anew() -> None:
    first = put(b"tea")
    put(b"coffee")
    with pytest.raises(NotFound) as refused:
        read_object_text("a", first, 10)
    assert refused.value.error_code == "object_gone"


def test_object_is_refused_when_it_is_not_text() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_object_text("a", put(b"PNG\0"), 10)
    assert refused.value.error_code == "object_not_text"


class Refusing:
    """Refuses to read. Stands for the client of S3."""

    def __init__(self, code: str) -> None:
        self._code = code

    def get_object(self, **_: Any) -> None:
        raise ClientError({"Error": {"Code": self._code, "Message": "no"}}, "GetObject")


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        ("InvalidObjectState", InvalidRequest),  # in an archive
        ("InvalidRequest", InvalidRequest),  # under a key that came with it
        ("KMS.DisabledException", InvalidRequest),
        ("KeyTooLongError", InvalidRequest),
        ("AccessDenied", NotFound),
        ("SlowDown", RecordUnavailable),
        ("InternalError", RecordUnavailable),
        ("RequestTimeout", RecordUnavailable),
    ],
)
def test_object_is_waited_for_when_another_try_may_read_it(
    monkeypatch: pytest.MonkeyPatch, code: str, refusal: type[Exception]
) -> None:
    monkeypatch.setattr(subject, "s3", lambda: Refusing(code))
    with pytest.raises(refusal, match=code):
        read_object_text("a", "", 10)
