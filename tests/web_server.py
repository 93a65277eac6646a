"""Servers on this machine that stand for servers on the internet, and a network that leads to them.

Nothing of the checks is switched off for it: names resolve to public addresses, and only the last step, the socket,
goes to 127.0.0.1 in their place.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from ipaddress import ip_address
from typing import NamedTuple, Self

import trustme

from stepagent.web.urls import Address

PUBLIC = "93.184.216.34"  # the address that stands for a server's own here
Answer = bytes | Callable[[socket.socket], object]


class Received(NamedTuple):
    """A request as it came in. Names of headers are in lower case."""

    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]


class WebServer:
    """Answers one connection after the other with the bytes that it is given; the last answer stands for all others.

    A function in place of bytes gets the socket and writes as it likes.
    """

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Received] = []
        self._answers = list(answers)
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with suppress(OSError, UnicodeError), self._secured(connection) as secured:
                self._answer(secured)

    def _secured(self, connection: socket.socket) -> socket.socket:
        connection.settimeout(5)
        if self._tls is None:
            return connection
        with connection:  # what it leaves behind is an empty shell
            return self._tls.wrap_socket(connection, server_side=True)

    def _answer(self, connection: socket.socket) -> None:
        if request := _read(connection):
            self.requests.append(request)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            connection.sendall(answer) if isinstance(answer, bytes) else answer(connection)


class LocalNetwork:
    """Stands for `Network`. Every name resolves to `PUBLIC` unless `names` knows better; sockets end at local ports.

    A name's answers are given one after the other, the last one again and again. `ports` leads an address to a server
    of its own; any other address leads to `server`.
    """

    def __init__(
        self,
        server: WebServer | None = None,
        names: Mapping[str, Sequence[Sequence[str]]] | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        self.resolved: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self._port = server.port if server else 0
        self._names = {name: [*answers] for name, answers in (names or {}).items()}
        self._ports = ports or {}

    def resolve(self, host: str, port: int) -> Sequence[Address]:
        self.resolved.append(host)
        answers = self._names.get(host, [[PUBLIC]])
        return [ip_address(address) for address in (answers.pop(0) if len(answers) > 1 else answers[0])]

    def connect(self, address: Address, port: int, timeout_s: float) -> socket.socket:
        self.connected.append((str(address), port))
        return socket.create_connection(("127.0.0.1", self._ports.get(str(address), self._port)), timeout_s)

    def tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _authority().configure_trust(context)
        return context


def answered(body: bytes = b"ok", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; `content_type="text/plain"` is the header Content-Type."""
    lines = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirected(location: str, status: int = 302) -> bytes:
    return answered(b"", f"{status} Elsewhere", Location=location)


@contextmanager
def serving(*answers: Answer) -> Iterator[tuple[WebServer, LocalNetwork]]:
    """A server without TLS and a network in which every address leads to it."""
    with WebServer(*answers) as server:
        yield server, LocalNetwork(server)


@contextmanager
def serving_securely(*answers: Answer, name: str = "api.example.com") -> Iterator[tuple[WebServer, LocalNetwork]]:
    """The same with TLS and a certificate for this name, of an authority that the network trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _certificate(name).configure_cert(context)
    with WebServer(*answers, tls=context) as server:
        yield server, LocalNetwork(server)


@cache
def _authority() -> trustme.CA:
    return trustme.CA()


@cache
def _certificate(name: str) -> trustme.LeafCert:
    return _authority().issue_cert(name)


def _read(connection: socket.socket) -> Received | None:
    with connection.makefile("rb") as lines:
        line = lines.readline().decode().rstrip()
        headers = {}
        while header := lines.readline().decode().strip():
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = lines.read(int(headers.get("content-length", 0)))
    return Received(line, headers, body) if line else None
