"""The connection under a request: to an address that was checked, until the deadline, for so many bytes."""

import socket
import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore2

from stepagent.web.deadline import Deadline
from stepagent.web.errors import WebReplyUnusable, WebUnreachable
from stepagent.web.network import Network
from stepagent.web.urls import Address

_CONNECT_S = 5  # for one address: where it does not answer, the next one may


class Line(httpcore2.NetworkStream):
    """A connection on which each step ends with the deadline, whatever time-out it is given.

    It yields `allowance` bytes and no more. `sent` says whether anything of a request went out.
    """

    def __init__(self, connected: socket.socket, deadline: Deadline, allowance: int) -> None:
        self._socket = connected
        self._deadline = deadline
        self.allowance = allowance
        self.sent = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.allowance <= 0:
            raise WebReplyUnusable("The server sends more than an answer may have.")
        self._socket.settimeout(self._deadline.left_s())
        received = self._socket.recv(min(max_bytes, self.allowance))
        self.allowance -= len(received)
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.sent = True
        rest = memoryview(buffer)
        while rest:
            self._socket.settimeout(self._deadline.left_s())
            try:
                rest = rest[self._socket.send(rest) :]
            except (BrokenPipeError, ConnectionResetError) as error:
                # Not the end: a server may answer, and close, before it has read everything.
                raise httpcore2.WriteError(type(error).__name__) from error

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "Line":
        self._socket.settimeout(self._deadline.left_s())
        self._socket = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname)
        return self

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        return None  # HTTP/1.1 is all that is spoken here, so nobody needs to know what TLS agreed upon


class Pinned(httpcore2.NetworkBackend):
    """Connects to the first that answers of the addresses that were checked, whatever host it is asked for."""

    def __init__(self, network: Network, addresses: Sequence[Address], deadline: Deadline, allowance: int) -> None:
        self._network = network
        self._addresses = addresses
        self._deadline = deadline
        self._allowance = allowance
        self.line: Line | None = None

    @property
    def sent(self) -> bool:
        """Whether a server may have read anything of the request."""
        return self.line is not None and self.line.sent

    def close(self) -> None:
        if self.line:
            self.line.close()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> Line:
        failure: OSError | None = None
        for address in self._addresses:
            try:
                connected = self._network.connect(address, port, min(_CONNECT_S, self._deadline.left_s()))
            except OSError as error:
                failure = error
                continue
            self.line = Line(connected, self._deadline, self._allowance)
            return self.line
        raise WebUnreachable(f"{host} cannot be reached.") from failure
