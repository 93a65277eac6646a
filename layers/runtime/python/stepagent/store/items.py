"""How things become items: the keys of the record's table, and text too large for an item.

All that belongs to a session stands in its partition, so that one query reads a conversation in order:

    pk S#<session>     sk SESSION                        the session: its number of runs, the run that is active
                       sk RUN#<ordinal>                  a run
                       sk RUN#<ordinal>#TURN#<turn>      the claim on a turn and the decision it came to
                       sk M#<ordinal>#<turn>#<part>      part 0: a message, or a request's; parts from 1: its calls
                       sk NOTES                          what its agents noted, each note under its call
    pk Q#<question>    sk QUESTION                       a question to a person, with its task tokens
    pk OWNER#<owner>   sk PENDING#<time>#<question>      a question that waits for this principal, until it is over
                       sk RUN#<time>#<run>              a run that this principal began
                       sk BATCH#<time>#<batch>          a batch that this principal began
    pk W#<execution>   sk WORKFLOW                       the call that an execution answers, with its task tokens
    pk B#<batch>       sk BATCH                          many inputs for one agent, and how they stand together
                       sk COUNT#<part>                   how many of them began and ended
    pk B#<batch>#<part> sk INPUT#<n>                     one that began: its run, its task tokens, how it ended
    pk I#<hash>        sk IDEMPOTENCY                    what a request with an idempotency key began; expires
    pk MODEL#<model>   sk MODEL                          the calling modes that its server refused, and when
    pk MCP#<server>    sk LISTING                        the tools that an MCP server offers, and when it was asked
    pk AGENTS, TOOLS   sk LATEST#<name>                  an agent or a tool as it stands, or that it was deleted
    pk AGENT#<name>    sk V#<version>                    each version of an agent; of a tool in TOOL#<name>
    pk CATALOG         sk CATALOG                        the number of changes to agents and tools
    pk KEYS            sk KEY#<sha-256>                  a key of the API, which itself is stored nowhere
    pk SPENT#<key>     sk <period>#<part>                what was spent with a key in a day or month; expires

What never changes after it is written is one JSON text (`body`), so that numbers and key order survive as given; what
changes has an attribute of its own.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from stepagent.batches.models import BatchKey
from stepagent.rows import RowKey, RowKind
from stepagent.runs import CallKey, InteractionId, Principal, RunId, RunKey, SessionKey
from stepagent.settings import settings
from stepagent.store.clients import s3, translated

INLINE_BYTES = 100_000  # an item may have 400 KB: a message, its calls and their keys stay far below
MESSAGES = "M#"  # what the sort keys of a session's conversation begin with
PENDING = "PENDING#"  # what the sort keys of questions that wait begin with
OWNED_RUN = "RUN#"  # what the sort keys of an owner's runs begin with
OWNED_BATCH = "BATCH#"  # what the sort keys of an owner's batches begin with
INPUT_COUNT = "COUNT#"  # what the sort keys of the counts of a batch's inputs begin with
LATEST = "LATEST#"  # what the sort keys of agents and tools as they stand begin with
KEYS = "KEYS"  # the partition of all keys of the API

_INPUT_COUNTS = 64
_INPUT_PARTITIONS = 16

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
    return marshal({"pk": session_pk(run.session), "sk": f"{MESSAGES}{run.ordinal:06d}#{turn:06d}#{part:03d}"})


def call_key(session: SessionKey, call: CallKey) -> Item:
    return message_key(RunKey(session, call.ordinal), call.turn, call.position + 1)


def notes_key(session: SessionKey) -> Item:
    return marshal({"pk": session_pk(session), "sk": "NOTES"})


def question_key(question: InteractionId) -> Item:
    return marshal({"pk": f"Q#{question}", "sk": "QUESTION"})


def owner_pk(owner: Principal) -> str:
    return f"OWNER#{owner}"


def pending_key(owner: Principal, asked_at: str, question: InteractionId) -> Item:
    return marshal({"pk": owner_pk(owner), "sk": f"{PENDING}{asked_at}#{question}"})


def owned_run_key(owner: Principal, begun_at: datetime, run: RunId) -> Item:
    return marshal({"pk": owner_pk(owner), "sk": f"{OWNED_RUN}{begun_at.isoformat(timespec='microseconds')}#{run}"})


def delegation_key(execution_name: str) -> Item:
    return marshal({"pk": f"W#{execution_name}", "sk": "WORKFLOW"})


def batch_pk(batch: BatchKey) -> str:
    return f"B#{batch}"


def batch_key(batch: BatchKey) -> Item:
    return marshal({"pk": batch_pk(batch), "sk": "BATCH"})


def owned_batch_key(owner: Principal, begun_at: datetime, batch: BatchKey) -> Item:
    return marshal({"pk": owner_pk(owner), "sk": f"{OWNED_BATCH}{begun_at.isoformat(timespec='microseconds')}#{batch}"})


def input_count_key(batch: BatchKey, n: int) -> Item:
    return marshal({"pk": batch_pk(batch), "sk": f"{INPUT_COUNT}{n % _INPUT_COUNTS:02d}"})


def input_key(batch: BatchKey, n: int) -> Item:
    return marshal({"pk": f"{batch_pk(batch)}#{n % _INPUT_PARTITIONS:02d}", "sk": f"INPUT#{n:07d}"})


def idempotency_key(hashed: str) -> Item:
    return marshal({"pk": f"I#{hashed}", "sk": "IDEMPOTENCY"})


def model_key(model: str) -> Item:
    return marshal({"pk": f"MODEL#{model}", "sk": "MODEL"})


def listing_key(server: str) -> Item:
    return marshal({"pk": f"MCP#{server}", "sk": "LISTING"})


def latest_pk(kind: RowKind) -> str:
    return f"{kind.upper()}S"


def latest_key(row: RowKey) -> Item:
    return marshal({"pk": latest_pk(row.kind), "sk": f"{LATEST}{row.name}"})


def version_key(row: RowKey, version: int) -> Item:
    return marshal({"pk": f"{row.kind.upper()}#{row.name}", "sk": f"V#{version:06d}"})


def catalog_key() -> Item:
    return marshal({"pk": "CATALOG", "sk": "CATALOG"})


def key_sort(digest: str) -> str:
    return f"KEY#{digest}"


def key_key(digest: str) -> Item:
    return marshal({"pk": KEYS, "sk": key_sort(digest)})


def spent_pk(key_id: str) -> str:
    return f"SPENT#{key_id}"


def spent_key(key_id: str, period: str, part: int) -> Item:
    return marshal({"pk": spent_pk(key_id), "sk": f"{period}#{part:02d}"})


def marshal(values: Mapping[str, Any]) -> Item:
    """Python values to DynamoDB's wire form."""
    return {name: _serialize(value) for name, value in values.items()}


def unmarshal(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _deserialize(value) for name, value in item.items()}


def task_tokens_in(item: Mapping[str, Any]) -> frozenset[str]:
    """Every token with which a state has waited; DynamoDB keeps no empty set, so there may be none."""
    return frozenset(item.get("task_tokens", ()))


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


def assign(name: str, text: str) -> tuple[str, dict[str, Any]]:
    """What `pack` holds, for an update: `#name = :name` with the attribute that it is, and the value."""
    ((attribute, value),) = pack(name, text).items()
    return f"#{attribute} = :{name}", {f":{name}": value}


@translated()
def unpack(item: Mapping[str, Any], name: str) -> str | None:
    """The text that `pack` stored, or None where there is none."""
    if object_key := item.get(f"{name}_object"):
        return s3().get_object(Bucket=settings().bucket, Key=object_key)["Body"].read().decode()
    text: str | None = item.get(name)
    return text
