"""Calls of tools of kind `http`: from arguments to a request, and from the answer to a result."""

import json
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from aws_lambda_powertools.utilities import parameters

from stepagent.clock import now
from stepagent.errors import ToolError
from stepagent.observe import logger
from stepagent.settings import settings
from stepagent.targets import HttpTarget, Place
from stepagent.web.client import USUAL, Bounds, send
from stepagent.web.content import content_of, text_of
from stepagent.web.errors import WebError, WebRefused
from stepagent.web.headers import check_header
from stepagent.web.network import INTERNET, Network
from stepagent.web.permission import AllowedHost, Permission
from stepagent.web.redaction import NOTHING_SECRET, Redaction
from stepagent.web.reply import WebResponse
from stepagent.web.request import WebRequest
from stepagent.web.template import as_text

_SECRET_SECONDS = 300  # a rotated secret is noticed after this time
_STORING_S = 1  # of a call's time is kept for its result
_EXCERPT_CHARS = 500
_WITHOUT_EFFECT = frozenset({"GET", "HEAD"})


def call_http(target: HttpTarget, arguments: Mapping[str, Any], deadline: datetime, network: Network = INTERNET) -> Any:
    """What the server answers to these arguments, as a value for the model. Secrets of the target are not in it.

    Raises:
        ToolError: the arguments make no request, there is no answer before the deadline, or it is an error.
    """
    secrets = {name: read_secret(item.secret) for name, item in target.secrets.items()}
    request = build_request(target, arguments, secrets)
    permission = Permission((AllowedHost.of(target.template.example()),), settings().http_allow_private)
    redaction = Redaction(secrets.values())
    response = fetch(request, permission, deadline, target.response_limit_bytes, network, redaction)
    return content_of(response, redaction)


def build_request(target: HttpTarget, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> WebRequest:
    """The request for these arguments. Pure.

    Args:
        target: the tool's target.
        arguments: the model's and the author's, by name.
        secrets: the texts of `target.secrets`, by the same names.

    Raises:
        ToolError: an argument does not fit where it goes.
    """
    placed = _placed(target, arguments)
    values = {name: target.secrets[name].prefix + text for name, text in secrets.items()}
    in_query = {name: value for name, value in values.items() if target.secrets[name].place == "query"}
    in_header = {name: value for name, value in values.items() if name not in in_query}
    query = [pair for pair in _pairs(placed["query"]) if pair[0] not in in_query]
    body, content_type = _body(target, placed["body"])
    headers = {**content_type, **target.headers, **_texts(placed["header"]), **in_header}
    try:
        url = target.template.fill(placed["path"], [*query, *in_query.items()])
        for name, value in placed["header"].items():
            check_header(name, as_text(value))
    except WebRefused as error:
        raise ToolError(f"The arguments do not fit. {error.message}") from error
    return WebRequest(target.method, url, {name.lower(): value for name, value in headers.items()}, body)


def fetch(
    request: WebRequest,
    permission: Permission,
    deadline: datetime,
    limit_bytes: int = USUAL.response_bytes,
    network: Network = INTERNET,
    redaction: Redaction = NOTHING_SECRET,
) -> WebResponse:
    """The answer of the server, if it is a success.

    Raises:
        ToolError: there is none before the deadline, or its status is another; worded for the model, without secrets.
    """
    left_s = (deadline - now()).total_seconds() - _STORING_S
    try:
        response = send(request, permission, Bounds(seconds=left_s, response_bytes=limit_bytes), network)
    except WebError as error:
        raise ToolError(redaction.text(_explained(error, request.method))) from error
    if response.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise ToolError(_refusal(response, redaction))
    return response


def read_secret(name: str) -> str:
    """The text of a secret.

    Raises:
        ToolError: it cannot be read, or holds something that no header can.
    """
    try:
        secret = str(parameters.get_secret(name, max_age=_SECRET_SECONDS)).strip()
    except parameters.GetParameterError as error:
        logger.error("secret of a tool cannot be read", extra={"secret": name, "reason": type(error).__name__})
        raise ToolError(f"This tool is not set up: its secret {name} cannot be read. Do without it.") from None
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ToolError(f"This tool is not set up: its secret {name} is not one line of ASCII. Do without it.")
    return secret


def _placed(target: HttpTarget, arguments: Mapping[str, Any]) -> dict[Place, dict[str, Any]]:
    """The arguments by where they go, under the names that they have there; only a body can hold null."""
    placed: dict[Place, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "body": {}}
    for argument, value in arguments.items():
        placement = target.placement(argument)
        if value is not None or placement.place == "body":
            placed[placement.place][placement.name] = value
    return placed


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Parameters of a query or a form; a list becomes one pair for each item."""
    return [
        (name, as_text(item))
        for name, value in values.items()
        for item in (value if isinstance(value, list) else [value])
        if item is not None
    ]


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: as_text(value) for name, value in values.items()}


def _body(target: HttpTarget, values: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The body and the header that names its encoding; neither where no argument goes there."""
    if not values:
        return b"", {}
    if target.body == "form":
        content = urlencode(_pairs(values), quote_via=quote).encode()
        return content, {"content-type": "application/x-www-form-urlencoded"}
    return json.dumps(values, ensure_ascii=False, default=str).encode(), {"content-type": "application/json"}


def _explained(error: WebError, method: str) -> str:
    """What the model can do about it."""
    if error.sent and method not in _WITHOUT_EFFECT:
        return f"{error.message} The effects of the request are unknown: check before you repeat it."
    return error.message


def _refusal(response: WebResponse, redaction: Redaction) -> str:
    """Status and the server's own words, in short."""
    text = text_of(response) or ""
    words = " ".join((redaction.beginning(text) if response.cut else redaction.text(text)).split())
    excerpt = words if len(words) <= _EXCERPT_CHARS else f"{words[:_EXCERPT_CHARS]}…"
    wait = redaction.text(response.headers.get("retry-after", ""))[:50]
    return (
        f"{response.url.host} answered with status {response.status}{_phrase(response.status)}"
        f"{f'; retry after: {wait}' if wait else ''}{f': {excerpt}' if excerpt else '.'}"
    )


def _phrase(status: int) -> str:
    return f" {HTTPStatus(status).phrase}" if status in HTTPStatus._value2member_map_ else ""
