"""Results of runs, sent to webhooks: signed, to public addresses alone, and again where that may help."""

import hmac
import json
import logging
import socket
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from stepagent.clock import now
from stepagent.replies.delivery import NotDelivered, deliver_from_message
from stepagent.replies.reply_to import ReplyTo
from tests.builders import RUN_ID
from tests.reply_places import DEAD, HOOK, PAGE, SECRET, Places, Queues, ended, install, message, read
from tests.tables import tables_in_memory
from tests.web_server import PUBLIC, LocalNetwork, answered, redirected, serving_securely


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]) -> Places:
    return install(monkeypatch, set_environment)


@pytest.fixture
def sqs(places: Places) -> Queues:
    return places.sqs


@pytest.fixture
def secret(places: Places) -> list[str]:
    return places.secret


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
