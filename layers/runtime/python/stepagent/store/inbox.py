"""Objects of the inbox bucket, which others fill, as text."""

from typing import Any

from botocore.exceptions import ClientError

from stepagent.errors import InvalidRequest, NotFound
from stepagent.settings import settings
from stepagent.store.clients import s3, translated

# 403 is what S3 says of a missing object to whoever may not list the bucket.
_GONE = frozenset({"NoSuchKey", "AccessDenied", "PreconditionFailed", "403", "404", "412"})
_EMPTY = frozenset({"InvalidRange", "416"})
# It lies in an archive, or under a key that is its writer's own; another try would find it there, too.
_UNREADABLE = frozenset(
    {"InvalidObjectState", "InvalidRequest", "KMS.DisabledException", "KMS.KMSInvalidStateException"}
    | {"KMS.NotFoundException", "KeyTooLongError"}
)


@translated()
def read_object_text(key: str, etag: str, limit_bytes: int) -> str:
    """The beginning of an object as text, as it was when `etag` was its tag ("" for as it is).

    Raises:
        NotFound: it is gone or was written anew since, or it may not be read.
        InvalidRequest: it is not text, or lies there in a way in which nobody can read it.
    """
    same: Any = {"IfMatch": f'"{etag}"'} if etag else {}
    beginning = f"bytes=0-{limit_bytes - 1}"
    try:
        answer = s3().get_object(Bucket=settings().inbox_bucket, Key=key, Range=beginning, **same)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in _EMPTY:  # no byte of an empty object is in any range
            return ""
        if code in _UNREADABLE:
            raise InvalidRequest(f"The object cannot be read ({code}).", "object", "object_unreadable") from error
        if code not in _GONE:
            raise
        why = f"The object is not in the inbox any more as it was ({code})."
        raise NotFound(why, "object", "object_gone") from error
    content = answer["Body"].read()
    if b"\0" in content:
        raise InvalidRequest("The object is not text.", "object", "object_not_text")
    return content.decode("utf-8-sig", "replace")
