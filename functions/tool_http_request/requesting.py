"""A request that a model writes itself, to hosts that whoever deploys has listed."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stepagent.errors import ConfigurationError, ToolError
from stepagent.settings import settings
from stepagent.tools.http_call import fetch
from stepagent.web.content import content_of
from stepagent.web.errors import WebRefused
from stepagent.web.network import INTERNET, Network
from stepagent.web.permission import Permission
from stepagent.web.request import WebRequest
from stepagent.web.urls import Url

# What a model may set: nothing that identifies somebody, or that servers take for the word of a proxy.
HEADERS = frozenset(
    {
        "accept",
        "accept-language",
        "content-type",
        "idempotency-key",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "prefer",
        "range",
    }
)
_SHOWN = ("content-type", "content-range", "etag", "last-modified", "link", "location", "retry-after")


def request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: str,
    deadline: datetime,
    network: Network = INTERNET,
) -> dict[str, Any]:
    """Status, some headers and the content of the answer.

    Raises:
        ToolError: the host is not allowed, the request is none, there is no answer, or it is an error.
        ConfigurationError: the list of allowed hosts is wrong.
    """
    sent = WebRequest(method, _url(url), *_content(headers, body))
    answer = fetch(sent, _permission(), deadline, network=network)
    shown = {name: answer.headers[name] for name in _SHOWN if name in answer.headers}
    return {"status": answer.status, "headers": shown, "body": content_of(answer)}


def _permission() -> Permission:
    try:
        permission = Permission.parse(settings().http_allowed_hosts, settings().http_allow_private)
    except ValueError as error:
        raise ConfigurationError(f"The parameter HttpAllowedHosts is not right: {error}") from error
    if not permission.hosts:
        raise ToolError("No host is allowed. Whoever deploys this can allow some with the parameter HttpAllowedHosts.")
    return permission


def _url(text: str) -> Url:
    try:
        return Url.parse(text.strip())
    except WebRefused as error:
        raise ToolError(error.message) from error


def _content(headers: Mapping[str, str], body: str) -> tuple[dict[str, str], bytes]:
    """The headers in lower case and the body, which says of itself that it is JSON where it is."""
    lower = {name.lower(): value for name, value in headers.items()}
    if refused := sorted(set(lower) - HEADERS):
        raise ToolError(f"The header {refused[0][:100]!r} cannot be set. These can: {', '.join(sorted(HEADERS))}.")
    if not body:
        return lower, b""
    usual = "application/json" if _is_json(body) else "text/plain; charset=utf-8"
    return {"content-type": usual, **lower}, body.encode("utf-8", "replace")


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False
