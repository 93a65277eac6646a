"""Results of runs as objects, for others to read."""

from stepagent.store.clients import s3, translated


@translated()
def put_reply(bucket: str, key: str, content: bytes) -> None:
    """Writes a result; again, it is the same object.

    Raises:
        RecordUnavailable: the bucket did not take it, and why.
    """
    s3().put_object(Bucket=bucket, Key=key, Body=content, ContentType="application/json")
