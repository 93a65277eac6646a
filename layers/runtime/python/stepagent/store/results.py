"""Results too long to show: kept whole in S3, read in pieces."""

from typing import NamedTuple

from stepagent.errors import NotFound
from stepagent.runs import CallKey, RunKey
from stepagent.settings import settings
from stepagent.store.clients import s3, translated


class KeptPiece(NamedTuple):
    """A part of a kept result; it may begin and end within a character."""

    text_bytes: bytes
    total_bytes: int


@translated()
def keep_result(run: RunKey, call: CallKey, text_bytes: bytes) -> None:
    """Keeps the whole text of a result. A repeat writes the same object."""
    s3().put_object(Bucket=settings().bucket, Key=_object_key(run, call), Body=text_bytes)


@translated()
def read_kept_result(run: RunKey, call: CallKey, offset: int, length: int) -> KeptPiece:
    """Reads `length` bytes behind `offset`, or what there is of them.

    Raises:
        NotFound: this session keeps no result of that call.
    """
    try:
        head = s3().head_object(Bucket=settings().bucket, Key=_object_key(run, call))
    except s3().exceptions.ClientError as error:
        # 403 is what S3 says of a missing object to whoever may not list the bucket.
        if error.response["Error"]["Code"] not in ("403", "404", "NoSuchKey", "NotFound"):
            raise
        raise NotFound(f"No long result of call {call.call_id} is kept.") from error
    total = head["ContentLength"]
    if offset >= total or length < 1:
        return KeptPiece(b"", total)
    last = min(offset + length, total) - 1
    answer = s3().get_object(Bucket=settings().bucket, Key=_object_key(run, call), Range=f"bytes={offset}-{last}")
    return KeptPiece(answer["Body"].read(), total)


def _object_key(run: RunKey, call: CallKey) -> str:
    """A session's results stand together, so that no other session's can be named."""
    return f"results/{run.session}/{call.call_id}"
