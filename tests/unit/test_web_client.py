"""One request and where it may lead: each trick by which a server, a name or a redirect could turn it elsewhere."""

import gzip
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from stepagent.web import network
from stepagent.web.client import Bounds, send
from stepagent.web.errors import WebError, WebRefused, WebReplyUnusable, WebTimedOut, WebUnreachable
from stepagent.web.permission import Permission
from stepagent.web.reply import WebResponse
from stepagent.web.request import WebRequest
from stepagent.web.urls import Url
from tests.web_server import (
    PUBLIC,
    LocalNetwork,
    WebServer,
    answered,
    redirected,
    serving,
    serving_securely,
)

ANYWHERE = "http://api.example.com,http://other.example.com,http://*.example.org,api.example.com,other.example.com"
OTHER = "93.184.216.35"
LONG = Bounds(seconds=5)
SHORT = Bounds(seconds=0.25)


def ask(
    network: LocalNetwork,
    url: str = "http://api.example.com/x",
    bounds: Bounds = LONG,
    hosts: str = ANYWHERE,
    own_addresses: bool = False,
    **request: Any,
) -> WebResponse:
    wanted = WebRequest(request.pop("method", "GET"), Url.parse(url), **request)
    return send(wanted, Permission.parse(hosts, own_addresses), bounds, network)


def refused(network: LocalNetwork, *args: Any, **kwargs: Any) -> WebError:
    with pytest.raises(WebError) as error:
        ask(network, *args, **kwargs)
    return error.value


# ---- what is sent and read


def test_answer_is_read_when_the_host_is_allowed() -> None:
    with serving(answered(b"hello", content_type="text/plain")) as (server, local):
        response = ask(local)
    assert (response.status, response.body, response.headers["content-type"]) == (200, b"hello", "text/plain")
    assert server.requests[0].line == "GET /x HTTP/1.1"


def test_host_names_the_server_when_the_connection_goes_to_its_address() -> None:
    with serving(answered()) as (server, local):
        ask(local)
    assert server.requests[0].headers["host"] == "api.example.com"
    assert local.connected == [(PUBLIC, 80)]


def test_body_is_sent_with_its_length_when_there_is_one() -> None:
    with serving(answered()) as (server, local):
        ask(local, method="POST", headers={"content-type": "text/plain"}, body=b"data")
    [request] = server.requests
    assert (request.body, request.headers["content-type"], request.headers["content-length"]) == (
        b"data",
        "text/plain",
        "4",
    )


@pytest.mark.parametrize("status", ["204 No Content", "404 Not Found", "500 Internal Server Error", "304 Not Modified"])
def test_answer_is_given_when_its_status_is_an_error_or_has_no_body(status: str) -> None:
    with serving(f"HTTP/1.1 {status}\r\n\r\n".encode()) as (_, local):
        assert ask(local).status == int(status[:3])


def test_headers_of_one_name_are_joined_when_there_are_several() -> None:
    with serving(b"HTTP/1.1 200 OK\r\nVary: a\r\nVARY: b\r\nContent-Length: 0\r\n\r\n") as (_, local):
        assert ask(local).headers["vary"] == "a, b"


def test_chunks_are_joined_when_the_body_comes_in_them() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    with serving(chunked) as (_, local):
        assert ask(local).body == b"abc"


def test_proxy_is_ignored_when_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(answered()) as (_, local):
        assert ask(local).status == 200
    assert local.connected == [(PUBLIC, 80)]


# ---- where it may go


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "169.254.170.2",
        "100.64.0.1",
        "::1",
        "::ffff:7f00:1",
        "fd00:ec2::254",
    ],
)
def test_name_is_refused_before_a_connection_when_it_leads_to_a_special_address(address: str) -> None:
    local = LocalNetwork(names={"api.example.com": [[address]]})
    error = refused(local)
    assert (type(error), error.sent, local.connected) == (WebRefused, False, [])


@pytest.mark.parametrize("addresses", [["127.0.0.1", PUBLIC], [PUBLIC, "127.0.0.1"], [PUBLIC, OTHER, "::1"]])
def test_name_is_refused_when_one_of_its_addresses_is_special(addresses: list[str]) -> None:
    local = LocalNetwork(names={"api.example.com": [addresses]})
    assert type(refused(local)) is WebRefused
    assert local.connected == []


def test_name_is_resolved_once_when_its_second_answer_would_be_private() -> None:
    with WebServer(answered()) as server:
        local = LocalNetwork(server, names={"api.example.com": [[PUBLIC], ["127.0.0.1"]]})
        ask(local)
    assert (local.resolved, local.connected) == (["api.example.com"], [(PUBLIC, 80)])


def test_second_request_is_checked_anew_when_the_name_has_moved_to_a_private_address() -> None:
    with WebServer(answered()) as server:
        local = LocalNetwork(server, names={"api.example.com": [[PUBLIC], ["127.0.0.1"]]})
        ask(local)
        assert type(refused(local)) is WebRefused
    assert local.connected == [(PUBLIC, 80)]


def test_name_is_not_resolved_when_it_is_not_allowed() -> None:
    local = LocalNetwork()
    assert type(refused(local, "http://evil.example/")) is WebRefused
    assert local.resolved == []


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]/", "http://[::ffff:7f00:1]/", "http://169.254.169.254/"]
)
def test_address_is_refused_when_an_entry_allows_it_and_it_is_special(url: str) -> None:
    local = LocalNetwork()
    assert type(refused(local, url, hosts=url.rstrip("/"))) is WebRefused
    assert (local.resolved, local.connected) == ([], [])


def test_own_service_is_reached_when_the_deployer_switched_it_on_and_named_it() -> None:
    with WebServer(answered(b"mine")) as server:
        url = f"http://127.0.0.1:{server.port}"
        response = send(WebRequest("GET", Url.parse(url)), Permission.parse(url, own_addresses=True))
    assert response.body == b"mine"


def test_next_address_is_tried_when_the_first_does_not_answer() -> None:
    with WebServer(answered(b"second")) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        names = {"api.example.com": [[PUBLIC, OTHER]]}
        local = LocalNetwork(server, names, ports={PUBLIC: closed.getsockname()[1]})
        assert ask(local).body == b"second"
    assert local.connected == [(PUBLIC, 80), (OTHER, 80)]


# ---- TLS


def test_certificate_is_checked_for_the_name_when_the_connection_goes_to_an_address() -> None:
    with serving_securely(answered(b"safe")) as (_, local):
        assert ask(local, "https://api.example.com/").body == b"safe"
    assert local.connected == [(PUBLIC, 443)]


def test_server_is_told_the_name_when_tls_begins() -> None:
    told: list[str | None] = []
    with serving_securely(answered()) as (server, local):
        assert server._tls is not None
        server._tls.sni_callback = lambda _, name, __: told.append(name)
        ask(local, "https://api.example.com/")
    assert told == ["api.example.com"]


def test_nothing_is_sent_when_the_certificate_is_for_another_name() -> None:
    with serving_securely(answered(), name="evil.example") as (server, local):
        error = refused(local, "https://api.example.com/")
    assert (type(error), error.sent, server.requests) == (WebUnreachable, False, [])
    assert "certificate" in error.message


def test_nothing_is_sent_when_nobody_known_vouches_for_the_certificate() -> None:
    with serving_securely(answered()) as (server, local):
        local.tls = ssl.create_default_context  # type: ignore[method-assign]
        error = refused(local, "https://api.example.com/")
    assert (type(error), error.sent, server.requests) == (WebUnreachable, False, [])


def test_nothing_is_sent_when_the_server_speaks_no_tls() -> None:
    with serving(answered()) as (_, local):
        error = refused(local, "https://api.example.com/")
    assert (type(error), error.sent) == (WebUnreachable, False)


# ---- redirects


def test_redirect_is_followed_when_it_leads_to_an_allowed_host() -> None:
    with serving(redirected("http://other.example.com/y"), answered(b"there")) as (server, local):
        response = ask(local)
    assert (response.body, str(response.url)) == (b"there", "http://other.example.com/y")
    assert [request.headers["host"] for request in server.requests] == ["api.example.com", "other.example.com"]


@pytest.mark.parametrize(
    "location",
    [
        "http://evil.example/",
        "//evil.example/",
        "http://api.example.com:8080/",
        "http://api.example.com@evil.example/",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://[::ffff:7f00:1]/",
        "http://169.254.169.254/latest/meta-data/",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "http://api.example.com\\@evil.example/",
        "https://[::1",
    ],
)
def test_redirect_is_refused_when_it_leads_where_no_request_may_go(location: str) -> None:
    with serving(redirected(location), answered(b"never")) as (server, local):
        error = refused(local)
    assert (type(error), error.sent, len(server.requests)) == (WebRefused, True, 1)


def test_redirect_is_refused_when_its_allowed_host_has_a_private_address() -> None:
    with WebServer(redirected("http://other.example.com/"), answered(b"never")) as server:
        local = LocalNetwork(server, names={"other.example.com": [["10.0.0.1"]]})
        assert type(refused(local)) is WebRefused
        assert len(server.requests) == 1


def test_redirect_is_refused_when_the_same_host_has_moved_to_a_private_address() -> None:
    with WebServer(redirected("/again"), answered(b"never")) as server:
        local = LocalNetwork(server, names={"api.example.com": [[PUBLIC], ["127.0.0.1"]]})
        assert type(refused(local)) is WebRefused
        assert len(server.requests) == 1


@pytest.mark.parametrize("location", ["http://api.example.com/", "http://other.example.com/"])
def test_redirect_is_refused_when_it_leaves_encryption(location: str) -> None:
    with serving_securely(redirected(location), answered(b"never")) as (server, local):
        error = refused(local, "https://api.example.com/")
    assert (type(error), len(server.requests)) == (WebRefused, 1)
    assert "encryption" in error.message


@pytest.mark.parametrize(("redirects", "count"), [(0, 1), (5, 6)])
def test_redirects_end_when_they_lead_in_a_circle(redirects: int, count: int) -> None:
    with serving(redirected("/x")) as (server, local):
        error = refused(local, bounds=Bounds(seconds=5, redirects=redirects))
    assert (type(error), error.sent, len(server.requests)) == (WebRefused, True, count)
    assert f"more than {redirects} times" in error.message


def test_redirects_end_with_the_deadline_when_each_is_slow() -> None:
    def slowly(connection: socket.socket) -> None:
        time.sleep(0.15)
        connection.sendall(redirected("/x"))

    with serving(slowly) as (_, local):
        began = time.monotonic()
        assert type(refused(local, bounds=SHORT)) is WebTimedOut
    assert time.monotonic() - began < 2


HEADERS = {"authorization": "Bearer s3cret", "x-api-key": "s3cret", "cookie": "s=1", "accept": "text/plain"}


def test_authors_headers_stay_behind_when_the_host_changes() -> None:
    with serving(redirected("http://other.example.com/"), answered()) as (server, local):
        ask(local, headers=HEADERS)
    assert "s3cret" not in str(server.requests[1])
    assert server.requests[1].headers["accept"] == "text/plain"
    assert not {"authorization", "x-api-key", "cookie"} & set(server.requests[1].headers)


def test_authors_headers_stay_behind_when_only_the_scheme_changes() -> None:
    with serving(redirected("https://api.example.com/")) as (plain, local), serving_securely(answered()) as (safe, _):
        local.connect = lambda address, port, timeout_s: socket.create_connection(  # type: ignore[method-assign]
            ("127.0.0.1", safe.port if port == 443 else plain.port), timeout_s
        )
        ask(local, headers=HEADERS)
    assert "s3cret" not in str(safe.requests)


def test_authors_headers_are_kept_when_the_server_stays_the_same() -> None:
    with serving(redirected("/y"), answered()) as (server, local):
        ask(local, headers=HEADERS)
    assert server.requests[1].headers["x-api-key"] == "s3cret"


@pytest.mark.parametrize(
    ("status", "before", "after"),
    [
        (301, "GET", "GET"),
        (301, "POST", "GET"),
        (301, "PUT", "PUT"),
        (302, "POST", "GET"),
        (302, "DELETE", "DELETE"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "DELETE", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (307, "PUT", "PUT"),
    ],
)
def test_method_and_body_follow_the_rules_of_http_when_redirected(status: int, before: str, after: str) -> None:
    body = b"" if before in ("GET", "HEAD") else b"data"
    with serving(redirected("/y", status), answered(b"")) as (server, local):
        ask(local, method=before, body=body, headers={"content-type": "text/plain"})
    second = server.requests[1]
    assert (second.method, second.body) == (after, body if after == before else b"")
    assert ("content-type" in second.headers) == (after == before)


@pytest.mark.parametrize("answer", [answered(b"", "302 Found"), answered(b"", "304 Not Modified", Location="/y")])
def test_answer_is_final_when_it_is_no_redirect_to_somewhere(answer: bytes) -> None:
    with serving(answer) as (server, local):
        ask(local)
    assert len(server.requests) == 1


# ---- how much and how long


def endlessly(head: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)

    return answer


HEAD = b"HTTP/1.1 200 OK\r\n"


def dripping(head: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(200):
            connection.sendall(drop)
            time.sleep(0.05)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        dripping(HEAD + b"Content-Length: 1000\r\n\r\n", b"x"),
        dripping(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        dripping(HEAD + b"X: ", b"x"),
        dripping(b"", b"H"),
        dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        lambda connection: connection.recv(1),
    ],
    ids=["body", "chunks", "headers", "status line", "interim answers", "silence"],
)
def test_request_ends_at_the_deadline_when_the_server_drips(answer: Callable[[socket.socket], None]) -> None:
    with serving(answer) as (_, local):
        began = time.monotonic()
        error = refused(local, bounds=SHORT)
        took = time.monotonic() - began
    assert (type(error), error.sent) == (WebTimedOut, True)
    assert 0.2 < took < 2


@pytest.mark.parametrize("bytes_at_once", [0, 1_000_000], ids=["not at all", "little by little"])
def test_request_ends_at_the_deadline_when_the_server_does_not_read(bytes_at_once: int) -> None:
    over = threading.Event()

    class Deaf(WebServer):
        def _answer(self, connection: socket.socket) -> None:
            while not over.wait(0.05):
                if bytes_at_once:
                    connection.recv(bytes_at_once)

    with Deaf(b"") as server:
        began = time.monotonic()
        bounds = Bounds(seconds=0.25, request_bytes=100_000_000)
        error = refused(LocalNetwork(server), bounds=bounds, method="POST", body=bytes(50_000_000))
        took = time.monotonic() - began
        over.set()
    assert (type(error), error.sent) == (WebTimedOut, True)
    assert took < 2


def test_request_ends_at_the_deadline_when_tls_never_comes_about() -> None:
    class Mute(WebServer):
        def _secured(self, connection: socket.socket) -> socket.socket:
            while connection.recv(65_536):
                pass
            return connection

    with Mute(b"") as server:
        began = time.monotonic()
        error = refused(LocalNetwork(server), "https://api.example.com/", bounds=SHORT)
        took = time.monotonic() - began
    assert (type(error), error.sent) == (WebTimedOut, False)
    assert took < 2


def test_socket_is_closed_when_the_deadline_passes_before_tls_begins() -> None:
    opened: list[socket.socket] = []

    class Late(LocalNetwork):
        def connect(self, address: Any, port: int, timeout_s: float) -> socket.socket:
            opened.append(super().connect(address, port, timeout_s))
            time.sleep(0.15)
            return opened[0]

    with WebServer(answered()) as server:
        error = refused(Late(server), "https://api.example.com/", bounds=Bounds(seconds=0.1))
        assert (type(error), error.sent, opened[0].fileno()) == (WebTimedOut, False, -1)


def test_request_ends_at_the_deadline_when_the_resolver_does_not_answer() -> None:
    over = threading.Event()

    class Slow(LocalNetwork):
        def resolve(self, host: str, port: int) -> Any:
            over.wait(5)
            return super().resolve(host, port)

    began = time.monotonic()
    assert type(refused(Slow(), bounds=SHORT)) is WebTimedOut
    assert time.monotonic() - began < 2
    over.set()


@pytest.mark.parametrize("seconds", [0, -5])
def test_nothing_is_sent_when_no_time_is_left(seconds: float) -> None:
    with serving(answered()) as (server, local):
        error = refused(local, bounds=Bounds(seconds=seconds))
    assert (type(error), error.sent, server.requests) == (WebTimedOut, False, [])


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"\r\n", b"x" * 65_536),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["until the end", "tiny chunks"],
)
def test_body_is_cut_at_its_limit_when_it_is_endless(head: bytes, piece: bytes) -> None:
    with serving(endlessly(HEAD + head, piece)) as (_, local):
        response = ask(local, bounds=Bounds(seconds=5, response_bytes=10_000))
    assert (len(response.body), response.cut) == (10_000, True)


def test_answer_ends_when_its_framing_alone_is_endless() -> None:
    framed = b"3;e=" + b"y" * 1_000 + b"\r\nabc\r\n"
    with serving(endlessly(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", framed)) as (_, local):
        error = refused(local, bounds=Bounds(seconds=5, response_bytes=10_000))
    assert type(error) is WebReplyUnusable
    assert "more than an answer may have" in error.message


def test_body_is_whole_when_it_has_exactly_the_limit() -> None:
    with serving(answered(b"x" * 1_000)) as (_, local):
        response = ask(local, bounds=Bounds(response_bytes=1_000))
    assert (len(response.body), response.cut) == (1_000, False)


@pytest.mark.parametrize(
    "answer",
    [
        endlessly(HEAD + b"X: ", b"x" * 65_536),
        endlessly(HEAD, b"X: y\r\n" * 1_000),
        endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
        HEAD + b"X: " + b"x" * 40_000 + b"\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["one line", "many lines", "interim answers", "just above"],
)
def test_answer_is_refused_when_its_headers_are_huge(answer: Any) -> None:
    with serving(answer) as (_, local):
        error = refused(local)
    assert (type(error), error.sent) == (WebReplyUnusable, True)


def test_answer_is_read_when_its_headers_are_large_and_allowed() -> None:
    with serving(answered(b"x" * 100_000, X="y" * 30_000)) as (_, local):
        assert len(ask(local).body) == 100_000


def zipped(content: bytes, **headers: str) -> bytes:
    return answered(gzip.compress(content), content_encoding="gzip", **headers)


def test_body_is_decompressed_when_it_is_zipped() -> None:
    with serving(zipped(b"hello" * 50_000)) as (server, local):
        assert ask(local).body == b"hello" * 50_000
    assert server.requests[0].headers["accept-encoding"] == "gzip"


def test_body_is_whole_when_it_is_zipped_in_two_parts() -> None:
    with serving(answered(gzip.compress(b"one") + gzip.compress(b"two"), content_encoding="gzip")) as (_, local):
        assert ask(local).body == b"onetwo"


def test_memory_stays_small_when_a_zipped_body_is_a_bomb() -> None:
    bomb = zipped(bytes(50_000_000))
    with serving(bomb) as (_, local):
        tracemalloc.start()
        try:
            response = ask(local)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (len(response.body), response.cut) == (1_000_000, True)
    assert peak < 5_000_000


def test_answer_ends_when_it_is_zipped_and_holds_nothing_for_ever() -> None:
    nothing = gzip.compress(b"") * 1_000
    with serving(endlessly(HEAD + b"Content-Encoding: gzip\r\n\r\n", nothing)) as (_, local):
        error = refused(local, bounds=Bounds(seconds=5, response_bytes=100_000))
    assert type(error) is WebReplyUnusable


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "gzip,identity", "compress"])
def test_answer_is_refused_when_its_compression_was_not_asked_for(encoding: str) -> None:
    with serving(answered(b"x", content_encoding=encoding)) as (_, local):
        assert type(refused(local)) is WebReplyUnusable


@pytest.mark.parametrize("content", [gzip.compress(b"x" * 1_000)[:-9], b"not gzip", gzip.compress(b"x")[:-4] + b"oops"])
def test_answer_is_refused_when_its_compressed_body_is_broken(content: bytes) -> None:
    with serving(answered(content, content_encoding="gzip")) as (_, local):
        assert type(refused(local)) is WebReplyUnusable


def test_nothing_is_sent_when_the_request_is_too_large() -> None:
    local = LocalNetwork()
    assert type(refused(local, method="POST", body=bytes(1_001), bounds=Bounds(request_bytes=1_000))) is WebRefused
    assert type(refused(local, headers={"x": "y" * 40_000})) is WebRefused
    assert local.resolved == []


# ---- what breaks


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nna me: x\r\n\r\n",
    ],
)
def test_answer_is_refused_when_it_is_not_whole_http(answer: bytes) -> None:
    with serving(answer) as (_, local):
        error = refused(local)
    assert (type(error), error.sent) == (WebReplyUnusable, True)


def test_answer_is_read_when_the_server_closes_before_it_has_read_everything() -> None:
    class Hasty(WebServer):
        def _answer(self, connection: socket.socket) -> None:
            connection.recv(100)
            connection.sendall(answered(b"too much", "413 Content Too Large"))

    with Hasty(b"") as server:
        bounds = Bounds(seconds=5, request_bytes=100_000_000)
        response = ask(LocalNetwork(server), method="POST", body=bytes(50_000_000), bounds=bounds)
    assert (response.status, response.body) == (413, b"too much")


def test_nothing_was_sent_when_no_address_answers() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        error = refused(LocalNetwork(ports={PUBLIC: closed.getsockname()[1]}))
    assert (type(error), error.sent) == (WebUnreachable, False)


def test_nothing_was_sent_when_the_name_does_not_exist() -> None:
    class Unknown(LocalNetwork):
        def resolve(self, host: str, port: int) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")

    error = refused(Unknown())
    assert (type(error), error.sent, error.message) == (WebUnreachable, False, "There is no host api.example.com.")


@pytest.mark.parametrize(
    "headers",
    [{"x": "a\r\nEvil: b"}, {"x\r\nEvil": "b"}, {"x": "a\nb"}, {"x y": "b"}, {"x": "ü"}, {"x": "a\x00b"}, {"": "b"}],
)
def test_nothing_is_sent_when_a_header_would_break_out_of_its_line(headers: dict[str, str]) -> None:
    with serving(answered()) as (server, local):
        error = refused(local, headers=headers)
    assert (type(error), error.sent, server.requests) == (WebRefused, False, [])


@pytest.mark.parametrize(
    "name", ["host", "Content-Length", "connection", "accept-encoding", "Transfer-Encoding", "expect", "upgrade"]
)
def test_nothing_is_sent_when_a_header_belongs_to_the_connection(name: str) -> None:
    local = LocalNetwork()
    assert type(refused(local, headers={name: "evil.example"})) is WebRefused
    assert local.connected == []


def test_messages_hold_no_path_when_a_request_fails() -> None:
    with serving(b"") as (_, local):
        assert "s3cret" not in refused(local, "http://api.example.com/s3cret?key=s3cret").message


def test_internet_gives_addresses_as_the_resolver_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET6, 1, 6, "", ("fe80::1%eth0", 443, 0, 2)), (socket.AF_INET, 1, 6, "", ("10.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert [str(address) for address in network.Internet().resolve("api.example.com", 443)] == [
        "fe80::1%eth0",
        "10.0.0.1",
    ]


def test_internet_trusts_the_machines_authorities_and_checks_names() -> None:
    context = network.Internet().tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
