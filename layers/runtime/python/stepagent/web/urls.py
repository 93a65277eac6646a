"""URLs in one plain form. There is no second parser that could read one of them otherwise."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple, Self
from urllib.parse import quote, urljoin

from stepagent.web.errors import WebRefused

DEFAULT_PORTS = {"https": 443, "http": 80}
MAX_URL_CHARS = 8_192

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(#.*)?"
)
_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<name>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~"
_SAFE_IN_QUERY = f"{_SAFE_IN_PATH}?[]|"

Address = IPv4Address | IPv6Address


class Url(NamedTuple):
    """Where a request goes.

    `host` is a name in lower case and ASCII, no dot at its end, or an address in its usual form without brackets.
    `target` is the path with the query, as it is sent.
    """

    scheme: str
    host: str
    port: int
    target: str
    names_port: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads an absolute URL; its fragment is left out.

        Raises:
            WebRefused: it is not one, has another scheme than http and https, holds credentials, or hides its host
                behind an odd spelling.
        """
        if len(text) > MAX_URL_CHARS:
            raise WebRefused(f"The URL is longer than {MAX_URL_CHARS} characters.")
        parts = _URL.fullmatch(text)
        if parts is None or not text.isprintable() or " " in text or "\\" in text:
            raise WebRefused("The URL is not a plain absolute URL, such as https://api.example.com/v1/items?page=2.")
        scheme = parts["scheme"].lower()
        if scheme not in DEFAULT_PORTS:
            raise WebRefused(f"URLs of the scheme {scheme[:20]!r} are not allowed: use https.")
        host, port = read_authority(parts["authority"])
        target = quote(parts["path"] or "/", safe=_SAFE_IN_PATH) + quote(parts["query"] or "", safe=_SAFE_IN_QUERY)
        return cls(scheme, host, port or DEFAULT_PORTS[scheme], target, port is not None)

    def join(self, location: str) -> Self:
        """Where a redirect from here leads.

        Raises:
            WebRefused: as `parse`.
        """
        try:
            return self.parse(urljoin(str(self), location))
        except ValueError as error:
            raise WebRefused("The redirect leads to something that is not a URL.") from error

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as the header `Host` has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def address(self) -> Address | None:
        """The address, where the host is one and not a name."""
        return address_in(self.host)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def read_authority(text: str) -> tuple[str, int | None]:
    """The host in its plain form and the port, None where none is named.

    Raises:
        WebRefused: there is more than a host and a port, or these are spelled in a way that hides what they are.
    """
    if "@" in text:
        raise WebRefused("A URL must not hold credentials: nothing may stand before the host.")
    parts = _AUTHORITY.fullmatch(text)
    if parts is None or not 0 < int(parts["port"] or 1) < 65_536:
        raise WebRefused("The URL's host is not a plain name such as api.example.com, or its port is none.")
    host = _plain_address(parts["bracketed"]) if parts["name"] is None else _plain_name(parts["name"])
    return host, int(parts["port"]) if parts["port"] else None


def address_in(host: str) -> Address | None:
    """The address that a plain host is, None where it is a name."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return None


def _plain_address(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise WebRefused("The URL's host in brackets is not an IPv6 address.") from error
    if address.scope_id is not None:
        raise WebRefused("An address in a URL must not name a network interface.")
    return address.compressed


def _plain_name(text: str) -> str:
    name = _in_ascii(text).removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise WebRefused("The URL's host is not a plain name such as api.example.com.")
    # The resolver takes 2130706433, 0x7f.1 and 017700000001 for 127.0.0.1.
    if _NUMBER.fullmatch(labels[-1]) and address_in(name) is None:
        raise WebRefused("An address in a URL must be written with four decimal numbers, such as 192.0.2.1.")
    return name


def _in_ascii(name: str) -> str:
    """The name in lower case, as the resolver is asked for it: 例え.jp becomes xn--r8jz45g.jp, and so does its tail."""
    if name.isascii() and "xn--" not in name.lower():
        return name.lower()
    # Imported here: most names are ASCII, and every function that reads the catalog imports this module.
    import idna  # noqa: PLC0415

    try:
        return idna.encode(name, uts46=True, transitional=False).decode()
    except idna.IDNAError as error:
        raise WebRefused("The URL's host is not a valid international name.") from error
