"""A request, and the one that a redirect asks for in its place."""

from collections.abc import Mapping
from typing import NamedTuple

from stepagent.web.errors import WebRefused
from stepagent.web.reply import WebResponse
from stepagent.web.urls import Url

_FOR_ANYBODY = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_OF_A_BODY = frozenset({"content-type"})


class WebRequest(NamedTuple):
    """A request. Names of headers are in lower case."""

    method: str
    url: Url
    headers: Mapping[str, str] = {}
    body: bytes = b""


def led_on(request: WebRequest, response: WebResponse) -> WebRequest:
    """What to send in answer to a redirect. Whatever may identify the author stays with the server it was written for.

    Raises:
        WebRefused: it leads to no plain URL, or from https to http.
    """
    url = request.url.join(response.headers["location"])
    if (request.url.scheme, url.scheme) == ("https", "http"):
        raise WebRefused(f"{request.url.host} redirects to a URL without encryption.")
    kept = frozenset(request.headers) if url.origin == request.url.origin else _FOR_ANYBODY
    if _becomes_get(request.method, response.status):
        return WebRequest("GET", url, _only(request.headers, kept - _OF_A_BODY))
    return WebRequest(request.method, url, _only(request.headers, kept), request.body)


def _only(headers: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in names}


def _becomes_get(method: str, status: int) -> bool:
    """As RFC 9110, 15.4, and browsers have it: 303 asks for GET, 301 and 302 turn POST into it, 307 and 308 nothing."""
    return (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST")
