"""Places of results in memory, in a deployment that allows some of them, and runs whose results go there."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

import boto3
import pytest
from aws_lambda_powertools.utilities import parameters
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.exceptions import ClientError

from stepagent import queues
from stepagent.clock import now
from stepagent.messages import AssistantMessage
from stepagent.replies.reply_to import ReplyTo
from stepagent.runs import Decision, Outcome, Run, RunStatus, StopReason, TurnRecord
from stepagent.store import items
from stepagent.store import replies as objects
from stepagent.store.turns import claim_turn, store_turn
from tests.builders import RUN_ID, a_run
from tests.functions import ROOT
from tests.recorded import NOTHING_SPENT, begin
from tests.tables import empty_tables

ACCOUNT = "123456789012"
QUEUE = f"https://sqs.eu-central-1.amazonaws.com/{ACCOUNT}/results"
ELSEWHERE = f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/far.fifo"
OWN = "https://sqs.eu-central-1.amazonaws.com/1/replies"
DEAD = "https://sqs.eu-central-1.amazonaws.com/1/replies-dead"
HOOK = "https://api.example.com/hooks/t0ken-in-path?key=t0ken-in-query"
SECRET = b64encode(b"0123456789abcdef0123456789abcdef").decode()
PAGE = ROOT / "docs" / "operations.md"


class Queues:
    """What was sent, and which messages come again when. Stands for the client of SQS."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.hidden_s: list[int] = []
        self.refusal = ""
        self.region: str | None = None

    def client(self, region: str | None = None) -> "Queues":
        self.region = region
        return self

    @property
    def meta(self) -> Any:
        client: Any = boto3.client("sqs", region_name=self.region)
        return client.meta

    def send_message(self, **request: Any) -> dict[str, Any]:
        if self.refusal and request["QueueUrl"] != DEAD:
            raise ClientError({"Error": {"Code": self.refusal, "Message": "no"}}, "SendMessage")
        self.sent.append(request)
        return {"MessageId": "1"}

    def change_message_visibility(self, **request: Any) -> dict[str, Any]:
        self.hidden_s.append(request["VisibilityTimeout"])
        return {}

    def to(self, url: str) -> list[dict[str, Any]]:
        return [request for request in self.sent if request["QueueUrl"] == url]

    @property
    def reasons(self) -> list[str]:
        """Why messages were put aside."""
        return [request["MessageAttributes"]["Reason"]["StringValue"] for request in self.to(DEAD)]


class Bucket:
    """Objects that were put. Stands for the client of S3."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}

    def put_object(self, Bucket: str, Key: str, Body: bytes, **_: str) -> dict[str, Any]:  # noqa: N803
        self.objects[Bucket, Key] = Body
        return {}

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        content = self.objects[Bucket, Key]
        return {"Body": type("Body", (), {"read": lambda self: content})()}


class Places(NamedTuple):
    """Where results go. `secret` signs for webhooks; empty it, and none can be read."""

    sqs: Queues
    s3: Bucket
    secret: list[str]


def install(patch: pytest.MonkeyPatch, set_environment: Callable[..., None]) -> Places:
    """Empties the record, and puts a deployment that allows some places in the place of the real one."""
    empty_tables()
    set_environment(
        BUCKET="ours",
        REPLY_QUEUE_URL=OWN,
        REPLY_DEAD_LETTER_QUEUE_URL=DEAD,
        REPLY_QUEUE_ARNS=f"arn:aws:sqs:eu-central-1:{ACCOUNT}:results,arn:aws:sqs:us-east-1:{ACCOUNT}:far.fifo",
        REPLY_OBJECT_ARNS="arn:aws:s3:::theirs/agents/*",
        WEBHOOK_ALLOWED_HOSTS="api.example.com",
        WEBHOOK_SECRET_ARN="arn:aws:secretsmanager:eu-central-1:1:secret:webhooks",
    )
    places = Places(Queues(), Bucket(), [SECRET])

    def get_secret(name: str, max_age: int) -> str:
        if not places.secret:
            raise parameters.GetParameterError("no")
        return places.secret[0]

    patch.setattr(queues, "sqs", places.sqs.client)
    for module in (objects, items):
        patch.setattr(module, "s3", lambda: places.s3)
    patch.setattr(parameters, "get_secret", get_secret)
    return places


def ended(reply_to: ReplyTo | None, answer: str = "It is done.", **changes: Any) -> Run:
    """A run that answered."""
    run = begin(a_run(created_at=now(), reply_to=reply_to, metadata={"order": "4711"}, **changes))
    outcome = Outcome(RunStatus.COMPLETED, StopReason.ANSWERED, answer)
    decision = Decision(run_id=run.run_id, turn=1, next="done")
    record = TurnRecord(decision, AssistantMessage(text=answer), (), NOTHING_SPENT, outcome)
    store_turn(run, claim_turn(run, 1, "claim").claim_id, record)
    return run


def message(body: str = json.dumps({"run_id": RUN_ID}), receives: int = 1) -> SQSRecord:
    return SQSRecord(
        {"body": body, "receiptHandle": "r", "attributes": {"ApproximateReceiveCount": str(receives)}, "messageId": "m"}
    )


def read(sent: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(sent["MessageBody"])
    return result
