"""How things become items: the keys of the record's table, and text too large for an item.

All that belongs to a session stands in its partition, so that one query reads a conversation in order:

    pk S#<session>     sk SESSION                        the session: its number of runs, the run that is active
                       sk RUN#<ordinal>                  a run
                       sk RUN#<ordinal>#TURN#<turn>      the claim on a turn and the decision it came to
                       sk M#<ordinal>#<turn>#<part>      part 0: a message, or a request's; parts from 1: its calls
    pk Q#<question>    sk QUESTION                       a question to a person, with its task token
    pk MODEL#<model>   sk MODEL                          the calling modes that its server refused, and when

What never changes after it is written is one JSON text (`body`), so that numbers and key order survive as given; what
changes has an attribute of its own.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from stepagent.runs import CallKey, InteractionId, RunKey, SessionKey
from stepagent.settings import settings
from stepagent.store.clients import s3, translated

INLINE_BYTES = 100_000  # an item may have 400 KB: a message, its calls and their keys stay far below

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize

Item = dict[str, Any]


def session_pk(session: SessionKey) -> str:
    return f"S#{session}"


def session_key(session: SessionKey) -> Item:
    return marshal({"pk": session_pk(session), "sk": "SESSION"})


def run_key(run: RunKey) -> Item:
    return marshal({"pk": session_pk(run.session), "sk": f"RUN#{run.ordinal:06d}"})


def turn_key(run: RunKey, turn: int) -> Item:
    return marshal({"pk": session_pk(run.session), "sk": f"RUN#{run.ordinal:06d}#TURN#{turn:06d}"})


def message_key(run: RunKey, turn: int, part: int = 0) -> Item:
    return marshal({"pk": session_pk(run.session), "sk": f"M#{run.ordinal:06d}#{turn:06d}#{part:03d}"})


def call_key(session: SessionKey, call: CallKey) -> Item:
    return message_key(RunKey(session, call.ordinal), call.turn, call.position + 1)


def question_key(question: InteractionId) -> Item:
    return marshal({"pk": f"Q#{question}", "sk": "QUESTION"})


def model_key(model: str) -> Item:
    return marshal({"pk": f"MODEL#{model}", "sk": "MODEL"})


def marshal(values: Mapping[str, Any]) -> Item:
    """Python values to DynamoDB's wire form."""
    return {name: _serialize(value) for name, value in values.items()}


def unmarshal(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _deserialize(value) for name, value in item.items()}


@translated()
def pack(name: str, text: str) -> dict[str, str]:
    """The attribute that holds the text, or, above 100 KB, the one that names the object in S3 that does."""
    content = text.encode()
    if len(content) <= INLINE_BYTES:
        return {name: text}
    # The name is the content's hash, so that a repeated write is the same object.
    object_key = f"payloads/{hashlib.sha256(content).hexdigest()}"
    s3().put_object(Bucket=settings().bucket, Key=object_key, Body=content)
    return {f"{name}_object": object_key}


@translated()
def unpack(item: Mapping[str, Any], name: str) -> str | None:
    """The text that `pack` stored, or None where there is none."""
    if object_key := item.get(f"{name}_object"):
        return s3().get_object(Bucket=settings().bucket, Key=object_key)["Body"].read().decode()
    text: str | None = item.get(name)
    return text
