"""Results of runs, sent to where their requests wanted them: what is promised, what arrives, and what is put aside."""

import hmac
import json
import logging
import re
import socket
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any, get_args

import boto3
import pytest
from aws_lambda_powertools.utilities import parameters
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.exceptions import ClientError

from stepagent import queues
from stepagent.api import service
from stepagent.api.idempotency import job_key
from stepagent.api.requests import ChatRequest, read_chat_request, read_job_request
from stepagent.api.runs import RunsQuery, show_runs
from stepagent.api.shapes import run_view
from stepagent.clock import now
from stepagent.errors import ConfigurationError, InvalidRequest
from stepagent.messages import AssistantMessage
from stepagent.notifying import ToldOfQuestion, ToldOfRun
from stepagent.replies.delivery import DELAYS_S, NotDelivered, deliver_from_message
from stepagent.replies.places import check_reply_to
from stepagent.replies.reply_to import ReplyTo
from stepagent.replies.result import MAX_BYTES, as_json, facts_of, result_of
from stepagent.runs import Decision, Failure, Outcome, Run, RunStatus, StopReason, TurnRecord
from stepagent.store import items
from stepagent.store import replies as objects
from stepagent.store.runs import close_run
from stepagent.store.turns import claim_turn, store_turn
from tests.builders import NOON, OWNER, RUN_ID, a_run
from tests.functions import ROOT
from tests.recorded import NOTHING_SPENT, begin
from tests.tables import empty_tables, tables_in_memory
from tests.web_server import PUBLIC, LocalNetwork, answered, redirected, serving_securely

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


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def allowed(set_environment: Callable[..., None]) -> None:
    """A deployment that allows some places."""
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


@pytest.fixture(autouse=True)
def sqs(monkeypatch: pytest.MonkeyPatch) -> Queues:
    service = Queues()
    monkeypatch.setattr(queues, "sqs", service.client)
    return service


@pytest.fixture(autouse=True)
def s3(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    bucket = Bucket()
    for module in (objects, items):
        monkeypatch.setattr(module, "s3", lambda: bucket)
    return bucket


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The secret that signs; empty it, and none can be read."""
    texts = [SECRET]

    def get_secret(name: str, max_age: int) -> str:
        if not texts:
            raise parameters.GetParameterError("no")
        return texts[0]

    monkeypatch.setattr(parameters, "get_secret", get_secret)
    return texts


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


# ---- what a request may name


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"queue_url": QUEUE, "webhook": HOOK},
        {"queue_url": ""},
        {"queue": QUEUE},
        {"queue_url": None},
        {"webhook": 1},
    ],
)
def test_reply_to_is_refused_when_it_names_not_exactly_one_place(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ReplyTo.model_validate(given)


@pytest.mark.parametrize(
    "given",
    [
        {"queue_url": QUEUE},
        {"queue_url": ELSEWHERE},
        {"s3_prefix": "replies/orders"},
        {"s3_prefix": "replies/orders/"},
        {"s3_prefix": "replies/day=1"},
        {"s3_prefix": "s3://ours/replies/orders"},
        {"s3_prefix": "s3://theirs/agents/orders"},
        {"webhook": HOOK},
    ],
)
def test_place_is_taken_when_the_deployment_allows_it(given: dict[str, str]) -> None:
    check_reply_to(ReplyTo.model_validate(given))


@pytest.mark.parametrize(
    "given",
    [
        {"queue_url": f"https://sqs.eu-central-1.amazonaws.com/{ACCOUNT}/others"},
        {"queue_url": "https://sqs.eu-central-1.amazonaws.com/999999999999/results"},
        {"queue_url": f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/results"},
        {"queue_url": f"https://sqs.eu-central-1.amazonaws.com.evil.example/{ACCOUNT}/results"},
        {"queue_url": f"{QUEUE}?x=1"},
        {"queue_url": OWN},
        {"s3_prefix": "payloads/orders"},
        {"s3_prefix": "repliesx/orders"},
        {"s3_prefix": "/replies/orders"},
        {"s3_prefix": "replies//orders"},
        {"s3_prefix": "replies/../payloads"},
        {"s3_prefix": "s3://theirs/agents/./x"},
        {"s3_prefix": "replies/ orders"},
        {"s3_prefix": "s3://ours/results/orders"},
        {"s3_prefix": "s3://theirs/agentsx/orders"},
        {"s3_prefix": "s3://others/agents/orders"},
        {"s3_prefix": "s3://"},
        {"s3_prefix": "replies/" + "x" * 1000},
        {"webhook": "http://api.example.com/hook"},
        {"webhook": "https://other.example.com/hook"},
        {"webhook": "https://api.example.com.evil.example/hook"},
        {"webhook": "https://user:pass@api.example.com/hook"},
        {"webhook": "https://api.example.com:8443/hook"},
        {"webhook": "https://127.0.0.1/hook"},
        {"webhook": "https://169.254.169.254/latest/meta-data"},
        {"webhook": "file:///etc/passwd"},
    ],
)
def test_place_is_refused_by_name_when_the_deployment_does_not_allow_it(given: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_reply_to(ReplyTo.model_validate(given))
    [field] = given
    assert (refused.value.param, refused.value.error_code) == (f"reply_to.{field}", "reply_to_not_allowed")


def test_address_that_is_allowed_is_refused_when_it_is_private(set_environment: Callable[..., None]) -> None:
    set_environment(WEBHOOK_ALLOWED_HOSTS="https://127.0.0.1:8443")
    with pytest.raises(InvalidRequest, match="not on the public internet"):
        check_reply_to(ReplyTo(webhook="https://127.0.0.1:8443/hook"))


@pytest.mark.parametrize("given", [{"queue_url": QUEUE}, {"s3_prefix": "s3://theirs/agents/x"}, {"webhook": HOOK}])
def test_nothing_but_the_stacks_own_bucket_is_allowed_when_nothing_is_listed(
    given: dict[str, str], set_environment: Callable[..., None]
) -> None:
    set_environment(REPLY_QUEUE_ARNS="", REPLY_OBJECT_ARNS="", WEBHOOK_ALLOWED_HOSTS="")
    with pytest.raises(InvalidRequest):
        check_reply_to(ReplyTo.model_validate(given))


def test_list_of_hosts_that_is_none_is_the_deployments_fault(set_environment: Callable[..., None]) -> None:
    set_environment(WEBHOOK_ALLOWED_HOSTS="*.com")
    with pytest.raises(ConfigurationError, match="WebhookAllowedHosts"):
        check_reply_to(ReplyTo(webhook=HOOK))


def asks(**fields: Any) -> ChatRequest:
    body = {"model": "helper", "messages": [{"role": "user", "content": "Do it."}], **fields}
    return read_chat_request(json.dumps(body).encode())


def test_job_is_another_one_when_its_result_goes_elsewhere() -> None:
    jobs = [
        {"agent": "a", "input": "x", "reply_to": {"s3_prefix": f"replies/{name}"}} for name in ("one", "two", "two")
    ]
    requests = [read_job_request(json.dumps(job).encode()).as_chat() for job in jobs]
    one, two, again = (job_key(request, OWNER, "id") for request in requests)
    assert one != two == again


def test_answer_to_a_question_names_no_place() -> None:
    waiting = a_run(pending=("q",))
    with pytest.raises(InvalidRequest, match="waits for an answer"):
        service._continue(waiting, asks(reply_to={"s3_prefix": "replies"}), None)


def test_run_shows_its_owner_where_its_result_goes_and_lists_do_not() -> None:
    run = begin(a_run(created_at=now(), reply_to=ReplyTo(webhook=HOOK)))
    assert run_view(run)["reply_to"]["webhook"] == HOOK
    assert HOOK not in json.dumps(show_runs(RunsQuery(), OWNER), default=str)


# ---- what is told


def test_facts_have_nothing_that_was_said_or_noted() -> None:
    failure = Failure(code="model_busy", message="words")
    facts = facts_of(a_run(answer="words", metadata={"a": "words"}, user="words", failure=failure, ended_at=NOON))
    assert "words" not in json.dumps(facts)
    assert (facts["run_id"], facts["owner"], facts["failure_code"]) == (RUN_ID, OWNER, "model_busy")


def test_result_has_one_id_however_often_it_is_told() -> None:
    run = a_run(status=RunStatus.CANCELLED, stop_reason=StopReason.CANCELLED, ended_at=NOON)
    result = result_of(run)
    assert (result["id"], result["type"]) == (f"{RUN_ID}.cancelled", "run.cancelled")
    assert result == result_of(run)


# ---- queues


def test_result_arrives_in_the_queue_with_answer_usage_and_the_callers_notes(sqs: Queues) -> None:
    ended(ReplyTo(queue_url=QUEUE))
    deliver_from_message(message())
    [sent] = sqs.to(QUEUE)
    data = read(sent)["data"]
    assert set(sent) == {"QueueUrl", "MessageBody"}
    assert (data["answer"], data["metadata"], data["status"]) == ("It is done.", {"order": "4711"}, "completed")
    assert data["usage"]["input_tokens"] == 0


def test_results_of_a_session_stay_in_order_and_come_once_when_the_queue_is_fifo(sqs: Queues) -> None:
    run = ended(ReplyTo(queue_url=ELSEWHERE))
    deliver_from_message(message())
    [sent] = sqs.to(ELSEWHERE)
    assert (sent["MessageGroupId"], sent["MessageDeduplicationId"]) == (run.key.session, f"{RUN_ID}.completed")


def test_answer_is_an_object_when_it_is_too_long_for_a_message(sqs: Queues, s3: Bucket) -> None:
    ended(ReplyTo(queue_url=QUEUE), answer="é" * MAX_BYTES)
    deliver_from_message(message())
    [sent] = sqs.to(QUEUE)
    data, key = read(sent)["data"], f"replies/large/{RUN_ID}.json"
    assert (data["answer"], data["answer_at"]) == (None, f"s3://ours/{key}")
    assert json.loads(s3.objects["ours", key])["data"]["answer"] == "é" * MAX_BYTES
    assert len(sent["MessageBody"]) < MAX_BYTES


def test_result_has_no_character_that_a_queue_refuses_and_means_the_same() -> None:
    answer = "".join(map(chr, (*range(0x20), 0x7F, 0x85, 0xDFFF, 0xD800, 0xFFFD, 0xFFFE, 0xFFFF, 0x1FFFF)))
    body = as_json(result_of(a_run(answer=answer, ended_at=NOON)))
    assert json.loads(body)["data"]["answer"] == answer
    taken = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")  # as SendMessage has it
    assert taken.fullmatch(body.decode())


def test_result_comes_again_when_the_queue_does_not_take_it(sqs: Queues) -> None:
    ended(ReplyTo(queue_url=QUEUE))
    sqs.refusal = "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(NotDelivered, match="NonExistentQueue"):
        deliver_from_message(message())
    assert (len(sqs.hidden_s), sqs.reasons) == (1, [])


def test_result_is_put_aside_when_its_place_is_allowed_no_more(
    sqs: Queues, set_environment: Callable[..., None]
) -> None:
    ended(ReplyTo(queue_url=QUEUE))
    set_environment(REPLY_QUEUE_ARNS="")
    deliver_from_message(message())
    assert sqs.to(QUEUE) == []
    assert "ReplyQueueArns" in sqs.reasons[0]


# ---- objects


@pytest.mark.parametrize(
    ("prefix", "place"),
    [
        ("replies/orders/", ("ours", f"replies/orders/{RUN_ID}.json")),
        ("replies", ("ours", f"replies/{RUN_ID}.json")),
        ("s3://theirs/agents/x", ("theirs", f"agents/x/{RUN_ID}.json")),
    ],
)
def test_result_is_an_object_named_after_its_run(s3: Bucket, prefix: str, place: tuple[str, str]) -> None:
    ended(ReplyTo(s3_prefix=prefix))
    deliver_from_message(message())
    first = dict(s3.objects)
    deliver_from_message(message())
    assert json.loads(s3.objects[place])["data"]["answer"] == "It is done."
    assert s3.objects == first


# ---- webhooks


def verified(headers: Any, body: bytes) -> bool:
    """Whether a receiver believes it, computed here from what the standard says."""
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    digest = b64encode(hmac.new(b64decode(SECRET), signed, sha256).digest()).decode()
    return f"v1,{digest}" in headers["webhook-signature"].split(" ")


def test_webhook_gets_the_signed_result() -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answered(b"", "204 No Content")) as (server, network):
        deliver_from_message(message(), network)
    [request] = server.requests
    assert (request.method, request.target) == ("POST", "/hooks/t0ken-in-path?key=t0ken-in-query")
    assert verified(request.headers, request.body)
    assert abs(int(request.headers["webhook-timestamp"]) - now().timestamp()) < 60
    assert json.loads(request.body)["data"]["answer"] == "It is done."
    assert request.headers["content-type"] == "application/json"


def test_webhook_is_known_by_the_same_id_when_it_comes_again() -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answered()) as (server, network):
        deliver_from_message(message(), network)
        deliver_from_message(message(receives=2), network)
    assert {request.headers["webhook-id"] for request in server.requests} == {f"{RUN_ID}.completed"}
    assert len({request.body for request in server.requests}) == 1


def test_receiver_of_the_documentation_verifies_what_is_sent() -> None:
    code = PAGE.read_text("utf-8").split("**Verifying a webhook.**")[1].split("```python\n")[1].split("```")[0]
    receiver: dict[str, Any] = {}
    exec(code, receiver)
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answered()) as (server, network):
        deliver_from_message(message(), network)
    [request] = server.requests
    verify = receiver["verify"]
    assert verify(f"whsec_{SECRET}", request.headers, request.body) == json.loads(request.body)
    old = {**request.headers, "webhook-timestamp": str(int((now() - timedelta(hours=1)).timestamp()))}
    for headers, body in ((request.headers, request.body + b" "), (old, request.body)):
        with pytest.raises(ValueError, match=r"not from us|too old"):
            verify(SECRET, headers, body)


def dripping(connection: socket.socket) -> None:
    """Takes the result at once, and then an hour for its words."""
    with suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while connection.send(b"1\r\nx\r\n"):
            time.sleep(0.05)


@pytest.mark.parametrize(
    "answer",
    [
        answered(b"\x1b\x00", Content_Encoding="br"),
        answered(b"no gzip", Content_Encoding="gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nless",
        b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\nno chunk",
        answered(b"x" * 1_000_000),
        dripping,
    ],
)
def test_webhook_is_delivered_once_its_status_says_so_whatever_follows(sqs: Queues, answer: Any) -> None:
    ended(ReplyTo(webhook=HOOK))
    began = time.monotonic()
    with serving_securely(answer) as (server, network):
        deliver_from_message(message(), network)
    assert (len(server.requests), sqs.hidden_s, sqs.reasons) == (1, [], [])
    assert time.monotonic() - began < 12  # less than a webhook may take


def cut(connection: socket.socket) -> None:
    connection.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answered(b"", "500 Internal Server Error"), "status 500"),
        (answered(b"", "503 Busy"), "status 503"),
        (answered(b"", "429 Too Many Requests"), "status 429"),
        (answered(b"", "408 Timeout"), "status 408"),
        (cut, "broke off"),
    ],
)
def test_webhook_comes_again_when_that_may_help(sqs: Queues, answer: Any, reason: str) -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answer) as (_, network), pytest.raises(NotDelivered, match=reason):
        deliver_from_message(message(), network)
    assert (len(sqs.hidden_s), sqs.reasons) == (1, [])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answered(b"", "400 Bad Request"), "status 400"),
        (answered(b"", "404 Not Found"), "status 404"),
        (answered(b"", "410 Gone"), "status 410"),
        (redirected("https://other.example.com/"), "redirects"),
        (redirected("https://api.example.com/else", 307), "redirects"),
    ],
)
def test_webhook_is_put_aside_when_it_was_refused(sqs: Queues, answer: bytes, reason: str) -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answer) as (server, network):
        deliver_from_message(message(), network)
    assert reason in sqs.reasons[0]
    assert read(sqs.to(DEAD)[0]) == {"run_id": RUN_ID}  # so that it can be moved back as it is
    assert (sqs.hidden_s, len(server.requests)) == ([], 1)


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1"])
def test_webhook_is_put_aside_when_its_name_leads_to_a_private_address(sqs: Queues, address: str) -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answered()) as (server, _):
        network = LocalNetwork(server, {"api.example.com": [[address]]})
        deliver_from_message(message(), network)
    assert (network.connected, server.requests) == ([], [])
    assert "not on the public internet" in sqs.reasons[0]


def test_webhook_is_laid_aside_when_its_name_leads_to_a_private_address_from_one_try_to_the_next(sqs: Queues) -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answered(b"", "500 No")) as (server, _):
        network = LocalNetwork(server, {"api.example.com": [[PUBLIC], ["169.254.169.254"]]})
        with pytest.raises(NotDelivered):
            deliver_from_message(message(), network)
        deliver_from_message(message(receives=2), network)
    assert (len(server.requests), len(network.connected)) == (1, 1)
    assert "not on the public internet" in sqs.reasons[0]


def test_webhook_comes_again_when_its_secret_cannot_be_read(sqs: Queues, secret: list[str]) -> None:
    ended(ReplyTo(webhook=HOOK))
    secret.clear()
    with serving_securely(answered()) as (server, network), pytest.raises(NotDelivered, match="secret"):
        deliver_from_message(message(), network)
    assert server.requests == []


@pytest.mark.parametrize("answer", [answered(b"", "500 No"), answered(b"", "400 No"), answered()])
def test_logs_and_reasons_hold_neither_the_secret_nor_what_a_url_may_hide(
    sqs: Queues, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answer) as (server, network), caplog.at_level(logging.INFO), suppress(NotDelivered):
        deliver_from_message(message(), network)
    told = "".join([*(str(vars(record)) for record in caplog.records), *capsys.readouterr(), *sqs.reasons])
    assert server.requests
    assert RUN_ID in told
    assert not [hidden for hidden in (SECRET, "t0ken", "It is done", "v1,") if hidden in told]


def test_page_names_what_the_bus_is_told() -> None:
    page = PAGE.read_text("utf-8").split("## Events out")[1].split("\n## ")[0]
    names = [*get_args(ToldOfRun), *get_args(ToldOfQuestion), *facts_of(a_run()), *result_of(a_run())]
    assert [name for name in names if f"`{name}`" not in page and f'"{name}"' not in page] == []


def test_page_names_each_pause() -> None:
    hours = [f"{pause // 3600} h" for pause in DELAYS_S if pause >= 3600]
    pauses = ["5 s", "5 min", "30 min", *hours]
    assert DELAYS_S[:3] == (5, 5 * 60, 30 * 60)
    assert f"{', '.join(pauses[:-1])} and {pauses[-1]}" in " ".join(PAGE.read_text("utf-8").split())


# ---- again and again


def test_tries_go_on_for_a_day_with_growing_pauses(sqs: Queues) -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answered(b"", "500 No")) as (server, network):
        for receives in range(1, len(DELAYS_S) + 1):
            with pytest.raises(NotDelivered):
                deliver_from_message(message(receives=receives), network)
        assert sqs.reasons == []
        deliver_from_message(message(receives=len(DELAYS_S) + 1), network)
    assert len(server.requests) == len(DELAYS_S) + 1
    assert sqs.reasons == ["The server answered with status 500."]
    assert all(pause >= least for pause, least in zip(sqs.hidden_s, DELAYS_S, strict=True))
    assert 23 * 3_600 < sum(DELAYS_S) < 25 * 3_600
    assert max(sqs.hidden_s) <= 43_200  # the longest that SQS hides a message


@pytest.mark.parametrize("body", ["", "no JSON", "[]", "{}", '{"run_id": 7}', '{"run_id": "run_none_1"}'])
def test_message_is_put_aside_when_it_names_no_run(sqs: Queues, body: str) -> None:
    deliver_from_message(message(body))
    assert [sent["MessageBody"] for sent in sqs.to(DEAD)] == [body]
    assert "There is no run" in sqs.reasons[0]


def test_message_is_put_aside_when_nobody_asked_for_a_reply(sqs: Queues) -> None:
    ended(None)
    deliver_from_message(message())
    assert len(sqs.reasons) == 1


def test_message_comes_again_when_it_cannot_be_put_aside(sqs: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**request: Any) -> None:
        raise ClientError({"Error": {"Code": "Throttled", "Message": "no"}}, "SendMessage")

    monkeypatch.setattr(sqs, "send_message", refuse)
    with pytest.raises(Exception, match="Throttled"):
        deliver_from_message(message("no JSON"))


def test_failed_run_tells_its_reason(sqs: Queues) -> None:
    run = begin(a_run(created_at=now(), reply_to=ReplyTo(queue_url=QUEUE)))
    close_run(run, Outcome(RunStatus.FAILED, StopReason.FAILED, failure=Failure(code="model_busy", message="Busy.")))
    deliver_from_message(message())
    data = read(sqs.to(QUEUE)[0])["data"]
    assert (data["failure"], data["status"]) == ({"code": "model_busy", "message": "Busy."}, "failed")
