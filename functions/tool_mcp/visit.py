"""One visit to an MCP server: a session of its own, one request in it, and what went wrong in our words.

A server of the protocol of 2026 has no sessions: a call is one POST. An older one is initialized before each call and
told when it is over, five requests in all. To keep its session would spare four of them, at the price of sessions that
end unnoticed between two calls. Connections are not kept either: a function that was frozen meanwhile would write into
a dead one, and not know what became of its call.
"""

import logging
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from typing import TypeVar

import anyio
import httpcore2
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from transport import MAX_BYTES, CheckedTransport

from stepagent.clock import now
from stepagent.errors import ToolError
from stepagent.observe import logger
from stepagent.settings import settings
from stepagent.targets import McpTarget
from stepagent.tools.asynchronous import wait_for
from stepagent.tools.http_call import read_secret
from stepagent.web.errors import WebError
from stepagent.web.redaction import Redaction

_CLOSING_S = 1  # for taking leave of a server that has answered
_REASON_CHARS = 1_000
_UNKNOWN_EFFECTS = " The effects of the call are unknown: check before you repeat it."
_WHO = types.Implementation(name="stepagent", version="1")
_OF_THE_CLIENT = frozenset({types.PARSE_ERROR, types.CONNECTION_CLOSED})  # not the server's words, but about them
_NOT_UNDERSTOOD = frozenset({types.INVALID_REQUEST, types.UNSUPPORTED_PROTOCOL_VERSION})

Answer = TypeVar("Answer")

# They log URLs, session ids and parts of answers; what matters of it becomes an error of ours.
for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class ServerRefused(ToolError):
    """The server answered with an error of the protocol. `rpc_code` is its number there."""

    def __init__(self, message: str, rpc_code: int) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class Visit:
    """A visit to a server. Its errors hold no secrets; its answers may, and `redaction` hides them there.

    `acts` is set by whoever sends something that may have effects. `outdated` says that the server speaks another
    version of the protocol than it was known to.
    """

    def __init__(self, server: McpTarget) -> None:
        secrets = {name: read_secret(item.secret) for name, item in server.secrets.items()}
        self.acts = False
        self.outdated = False
        self.redaction = Redaction(secrets.values())
        self._server = server
        self._headers = {name: server.secrets[name].prefix + text for name, text in secrets.items()}
        self._status = 0

    def ask(self, request: Callable[[Client], Awaitable[Answer]], deadline: datetime) -> Answer:
        """What the server answers to a request in a session of its own.

        It begins in the version that the server is known to speak. Where that is not understood, so that nothing came
        of the request, another one is found out.

        Raises:
            ServerRefused: the server refused it.
            ToolError: there is no answer before the deadline, or no connection, or something else than MCP.
        """
        try:
            return self._visit(request, deadline, _mode(self._server.version))
        except ServerRefused as refused:
            not_understood = self._status == HTTPStatus.BAD_REQUEST and refused.rpc_code in _NOT_UNDERSTOOD
            if not self._server.version or (self.acts and not not_understood):
                raise
        self.outdated, self.acts = True, False
        return self._visit(request, deadline, "auto")

    def _visit(self, request: Callable[[Client], Awaitable[Answer]], deadline: datetime, mode: str) -> Answer:
        answer: Answer = wait_for(self._answer(request, (deadline - now()).total_seconds(), mode))
        return answer

    async def _answer(self, request: Callable[[Client], Awaitable[Answer]], seconds: float, mode: str) -> Answer:
        answers: list[Answer] = []
        failure: Exception | None = None
        transport = CheckedTransport(self._server.endpoint, settings().http_allow_private)
        with anyio.move_on_after(seconds) as patience:
            try:
                async with self._session(transport, mode) as client:
                    answers.append(await request(client))
                    patience.deadline = min(patience.deadline, anyio.current_time() + _CLOSING_S)
            except Exception as error:  # the client's tasks fail in groups of whatever went wrong first
                failure = error
        if answers:  # what goes wrong behind an answer takes nothing away from it
            return answers[0]
        self._status = transport.status
        raise self._translated(failure)  # and not from it: it has the server's own words, in which a secret may be

    @asynccontextmanager
    async def _session(self, transport: CheckedTransport, mode: str) -> AsyncIterator[Client]:
        url = str(self._server.endpoint)
        headers = {"accept-encoding": "identity", "user-agent": "stepagent", **self._server.headers, **self._headers}
        async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=None, max_redirects=3) as http:
            streams = streamable_http_client(url, http_client=http, max_sse_event_size=MAX_BYTES)
            async with Client(streams, mode=mode, cache=None, client_info=_WHO) as client:
                yield client

    def _translated(self, failure: Exception | None) -> ToolError:
        host, reason = self._server.endpoint.host, _first_cause(failure)
        effects = _UNKNOWN_EFFECTS if self.acts else ""
        match reason:
            case ToolError():
                return reason
            case MCPError() if reason.code not in _OF_THE_CLIENT:
                return ServerRefused(self._refusal(host, reason), reason.code)
            case WebError():
                return ToolError(f"{reason.message}{effects if self._status else ''}")
            case httpcore2.ConnectError():  # of TLS: all other connections are made by the transport
                return ToolError(f"No secure connection to {host}: {_certificate_flaw(reason)}.")
        if reason:
            error = f"{type(reason).__name__} at {_place(reason)}"
            logger.warning("no answer of an mcp server", extra={"host": host, "status": self._status, "error": error})
        return ToolError(f"{host} {_what_happened(reason)}.{effects}")

    def _refusal(self, host: str, error: MCPError) -> str:
        """The server's own words, behind its status where that is an error."""
        words = " ".join(self.redaction.text(error.message).split())[:_REASON_CHARS]
        if self._status < HTTPStatus.BAD_REQUEST:
            return f"{host} refused: {words}"
        return f"{host} answered with status {self._status}: {words}"


def _mode(version: str) -> str:
    """How a session begins: at once in a version that is known, else by finding out."""
    if not version:
        return "auto"
    return version if version in MODERN_PROTOCOL_VERSIONS else "legacy"


def _first_cause(failure: Exception | None) -> Exception | None:
    """The error at the bottom of nested groups; of several, one that says most."""
    causes = list(_causes(failure)) if failure else []
    telling = [cause for cause in causes if isinstance(cause, WebError | MCPError)]
    return next(iter([*telling, *causes]), None)


def _causes(failure: Exception) -> Iterator[Exception]:
    if isinstance(failure, ExceptionGroup):
        for part in failure.exceptions:
            yield from _causes(part)
    else:
        yield failure


def _certificate_flaw(error: Exception) -> str:
    cause = error.__cause__
    return cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else "the server broke it off"


def _place(error: Exception) -> str:
    """Where it was raised: what it says may be a part of the answer."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"


def _what_happened(reason: Exception | None) -> str:
    match reason:
        case None:
            return "did not answer in time"
        case MCPError(code=types.PARSE_ERROR) | ValueError() | RuntimeError():
            return "did not answer as the Model Context Protocol has it"
    return "broke the connection off"
