"""Sends one request, follows where it is led as far as that is allowed, and reads an answer of bounded size."""

import ssl
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import httpcore2

from stepagent.web.deadline import Deadline
from stepagent.web.errors import WebError, WebRefused, WebReplyUnusable, WebUnreachable
from stepagent.web.headers import check_header
from stepagent.web.line import Pinned
from stepagent.web.network import INTERNET, Network, resolve
from stepagent.web.permission import Permission
from stepagent.web.reply import WebResponse, read_response
from stepagent.web.request import WebRequest, led_on
from stepagent.web.urls import Address, Url

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_FRAMING = 8  # times the size of a body: what chunks of a few bytes each take at worst


class Bounds(NamedTuple):
    """What one request may take, redirects included. Bytes of a response count as they are once decompressed."""

    seconds: float = 20
    request_bytes: int = 1_000_000
    header_bytes: int = 32_768
    response_bytes: int = 1_000_000
    redirects: int = 5


USUAL = Bounds()


def send(
    request: WebRequest, permission: Permission, bounds: Bounds = USUAL, network: Network = INTERNET
) -> WebResponse:
    """Sends a request and reads the answer, whatever its status.

    A redirect is followed where it leads to an allowed host, never from https to http, and what the author added to the
    request stays behind when it leads to another server.

    Raises:
        WebError: as its class says; `sent` says whether a server may have acted.
    """
    deadline, followed = Deadline(bounds.seconds), 0
    response = _exchange(request, permission, bounds, deadline, network)
    while response.leads_on:
        with _after_a_request():
            if followed == bounds.redirects:
                raise WebRefused(f"{request.url.host} redirects more than {bounds.redirects} times.")
            request, followed = led_on(request, response), followed + 1
            response = _exchange(request, permission, bounds, deadline, network)
    return response


@contextmanager
def _after_a_request() -> Iterator[None]:
    try:
        yield
    except WebError as error:
        error.sent = True
        raise


def _exchange(
    request: WebRequest, permission: Permission, bounds: Bounds, deadline: Deadline, network: Network
) -> WebResponse:
    """One request to one server."""
    permission.check(request.url)
    headers = _headers(request)
    _check_size(request, headers, bounds)
    pinned = Pinned(network, _checked(request.url, permission, deadline, network), deadline, bounds.header_bytes)
    try:
        with _translated(request.url, deadline, pinned), _connection(request.url, network, pinned) as connection:
            received = connection.handle_request(_as_sent(request, headers))
            if pinned.line:  # the headers are in
                pinned.line.allowance = _FRAMING * bounds.response_bytes + bounds.header_bytes
            return read_response(received, request.url, bounds.response_bytes)
    except WebError as error:
        error.sent = pinned.sent
        raise
    finally:
        pinned.close()


def _checked(url: Url, permission: Permission, deadline: Deadline, network: Network) -> Sequence[Address]:
    """The addresses of a host, resolved once, each of them allowed: one that is not makes the name suspect."""
    addresses = [url.address] if url.address else resolve(network, url.host, url.port, deadline)
    for address in addresses:
        permission.check_address(url, address)
    return addresses


def _connection(url: Url, network: Network, pinned: Pinned) -> httpcore2.HTTPConnection:
    """A connection of its own for each request: the next one may lead elsewhere. TLS checks the name."""
    origin = httpcore2.Origin(url.scheme.encode(), url.host.encode(), url.port)
    return httpcore2.HTTPConnection(origin, ssl_context=network.tls(), network_backend=pinned)


def _as_sent(request: WebRequest, headers: list[tuple[str, str]]) -> httpcore2.Request:
    url = request.url
    parts = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
    return httpcore2.Request(request.method, parts, headers=headers, content=request.body or None)


def _headers(request: WebRequest) -> list[tuple[str, str]]:
    for name, value in request.headers.items():
        check_header(name, value)
    usual = {"accept": "*/*", "user-agent": "stepagent"}
    ours = {"host": request.url.authority, "accept-encoding": "gzip", "connection": "close"}
    if request.body or request.method in _WITH_BODY:
        ours["content-length"] = str(len(request.body))
    return list({**ours, **usual, **request.headers}.items())


def _check_size(request: WebRequest, headers: list[tuple[str, str]], bounds: Bounds) -> None:
    if len(request.body) > bounds.request_bytes:
        raise WebRefused(f"The request's body has {len(request.body)} bytes; {bounds.request_bytes} are allowed.")
    if sum(len(name) + len(value) for name, value in headers) > bounds.header_bytes:
        raise WebRefused(f"The request's headers have more than {bounds.header_bytes} bytes.")


@contextmanager
def _translated(url: Url, deadline: Deadline, pinned: Pinned) -> Iterator[None]:
    """Failures on the way, as ours."""
    try:
        yield
    except TimeoutError as error:
        raise deadline.passed() from error
    except ssl.SSLCertVerificationError as error:
        raise WebUnreachable(f"The certificate of {url.host} is not valid: {error.verify_message}.") from error
    except httpcore2.LocalProtocolError as error:
        raise WebRefused("The request is not as HTTP has it.") from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError, zlib.error) as error:
        if not pinned.sent:
            raise WebUnreachable(f"{url.host} cannot be reached.") from error
        raise WebReplyUnusable(f"{url.host} broke off, or did not answer as HTTP has it.") from error
