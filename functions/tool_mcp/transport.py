"""The way of the MCP client to a server: to checked addresses of one host, for answers of bounded size."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable

import anyio
import httpcore2
import httpx2

from stepagent.web.errors import WebReplyUnusable, WebUnreachable
from stepagent.web.network import INTERNET, Network
from stepagent.web.permission import AllowedHost, Permission
from stepagent.web.urls import Address, Url

MAX_BYTES = 8_000_000  # of one answer: a result with an image or two
_CONNECT_S = 5  # for one address: where it does not answer, the next one may


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to the host of one URL and nowhere else. Its connections end with it.

    `status` is that of the last answer, 0 before there is one. What is not allowed, or too large, fails with a WebError
    while a request is sent or its answer is read.
    """

    def __init__(self, url: Url, own_addresses: bool, network: Network = INTERNET) -> None:
        self.status = 0
        self._url = url
        self._permission = Permission((AllowedHost.of(url),), own_addresses)
        backend = CheckedBackend(url, self._permission, network)
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=network.tls(), network_backend=backend)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._permission.check(Url.parse(str(request.url)))
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        sent = httpcore2.Request(
            request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        received = await self._pool.handle_async_request(sent)
        self.status = received.status
        response = httpx2.Response(received.status, headers=received.headers, stream=_Bounded(received, self._url.host))
        if response.headers.get("content-encoding", "identity") != "identity":  # few bytes could become very many
            await response.aclose()
            raise WebReplyUnusable(f"{self._url.host} answered in a compression that was not asked for.")
        return response

    async def aclose(self) -> None:
        await self._pool.aclose()


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to addresses of a host that were checked just now, whatever its name leads to a moment later."""

    def __init__(self, url: Url, permission: Permission, network: Network) -> None:
        self._url = url
        self._permission = permission
        self._network = network
        self._sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (as the base class has it)
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._addresses()
        for address in addresses:  # each of them: one that is not allowed makes the name suspect
            self._permission.check_address(self._url, address)
        return await self._connected(addresses)

    async def _addresses(self) -> list[Address]:
        if self._url.address:
            return [self._url.address]
        host, port = self._url.host, self._url.port
        try:
            found = await anyio.to_thread.run_sync(self._network.resolve, host, port, abandon_on_cancel=True)
        except (OSError, UnicodeError) as error:
            raise WebUnreachable(f"There is no host {host}.") from error
        return list(found)

    async def _connected(self, addresses: Iterable[Address]) -> httpcore2.AsyncNetworkStream:
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._sockets.connect_tcp(str(address), self._url.port, _CONNECT_S)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise WebUnreachable(f"{self._url.host} cannot be reached.") from failure


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, up to so many bytes."""

    def __init__(self, received: httpcore2.Response, host: str) -> None:
        self._received = received
        self._host = host

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._received.stream, AsyncIterable)
        left = MAX_BYTES
        async for piece in self._received.stream:
            left -= len(piece)
            if left < 0:
                raise WebReplyUnusable(f"{self._host} answered with more than {MAX_BYTES} bytes.")
            yield piece

    async def aclose(self) -> None:
        await self._received.aclose()
