"""A server's answer, read as far as it may be long."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import httpcore2

from stepagent.web.errors import WebReplyUnusable
from stepagent.web.urls import Url

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PIECE_BYTES = 65_536


class WebResponse(NamedTuple):
    """An answer, decompressed. Names of headers are in lower case.

    `cut` says that the body is only the beginning of a longer one. `url` is where it came from in the end.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: Url
    cut: bool = False

    @property
    def leads_on(self) -> bool:
        """Whether it is a redirect that names where to."""
        return self.status in _REDIRECTS and "location" in self.headers


def read_response(received: httpcore2.Response, url: Url, limit_bytes: int) -> WebResponse:
    """Reads the body until its end, or until `limit_bytes` of it are decompressed; that of a redirect is left.

    With a limit of 0 nothing of it is looked at: neither that it is broken nor that it never ends matters then.

    Raises:
        WebReplyUnusable: the server compresses otherwise than it was asked to.
        zlib.error: the compressed body is broken.
    """
    response = WebResponse(received.status, _headers(received.headers), b"", url)
    if response.leads_on or not limit_bytes:
        return response
    body = bytearray()
    for piece in _decoded(received.iter_stream(), response.headers.get("content-encoding", ""), url):
        body += piece
        if len(body) > limit_bytes:
            return response._replace(body=bytes(body[:limit_bytes]), cut=True)
    return response._replace(body=bytes(body))


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by name; of several with one name, the values in one, as HTTP reads them."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode("utf-8", "replace")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _decoded(pieces: Iterable[bytes], encoding: str, url: Url) -> Iterator[bytes]:
    match encoding.strip().lower():
        case "" | "identity":
            return iter(pieces)
        case "gzip" | "x-gzip":
            return _inflated(pieces)
        case _:
            raise WebReplyUnusable(f"{url.host} answered in a compression that was not asked for.")


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What gzip holds, in pieces of bounded size, so that few bytes cannot become very many before they are counted."""
    inflater, begun = _inflater(), False
    for piece in pieces:
        rest = piece
        while rest:
            yield inflater.decompress(rest, _PIECE_BYTES)
            rest, begun = inflater.unconsumed_tail, True
            if inflater.eof:  # a file of gzip may be several, one behind the other
                rest, inflater, begun = inflater.unused_data, _inflater(), False
    if begun:
        yield inflater.flush()
        if not inflater.eof:
            raise zlib.error("it ends too early")


def _inflater() -> "zlib._Decompress":
    return zlib.decompressobj(zlib.MAX_WBITS | 16)
