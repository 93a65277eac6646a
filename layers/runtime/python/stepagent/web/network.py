"""Names and addresses: what a connection is made with."""

import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from ipaddress import ip_address
from threading import Thread
from typing import Protocol, TypeVar

import httpcore2

from stepagent.web.deadline import Deadline
from stepagent.web.errors import WebUnreachable
from stepagent.web.urls import Address

Result = TypeVar("Result")


class Network(Protocol):
    """The only way to names and sockets. Tests put a network of their own in its place."""

    def resolve(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of a name.

        Raises:
            OSError: there are none.
        """
        ...

    def connect(self, address: Address, port: int, timeout_s: float) -> socket.socket:
        """A connection to exactly this address.

        Raises:
            OSError: it does not come about.
        """
        ...

    def tls(self) -> ssl.SSLContext:
        """Whose certificates are trusted."""
        ...


class Internet:
    """The network as this machine has it. Proxies that the environment names are not looked at."""

    def resolve(self, host: str, port: int) -> Sequence[Address]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        return [ip_address(sockaddr[0]) for *_, sockaddr in found]

    def connect(self, address: Address, port: int, timeout_s: float) -> socket.socket:
        return socket.create_connection((str(address), port), timeout_s)

    def tls(self) -> ssl.SSLContext:
        return _tls()


INTERNET = Internet()


@cache
def _tls() -> ssl.SSLContext:
    return httpcore2.default_ssl_context()


def resolve(network: Network, host: str, port: int, deadline: Deadline) -> Sequence[Address]:
    """All addresses of a name, asked for once.

    Raises:
        WebUnreachable: there are none.
        WebTimedOut: the resolver does not answer in time.
    """
    try:
        found = _within(deadline, lambda: network.resolve(host, port))
    except (OSError, UnicodeError) as error:
        raise WebUnreachable(f"There is no host {host}.") from error
    if not found:
        raise WebUnreachable(f"There is no host {host}.")
    return found


def _within(deadline: Deadline, function: Callable[[], Result]) -> Result:
    """What a function returns that has no time-out of its own; where it takes too long it is left to itself."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # raised again where it is waited for
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return future.result(deadline.left_s())
    except TimeoutError as error:
        raise deadline.passed() from error
