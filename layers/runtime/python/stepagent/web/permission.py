"""Where requests may go: an allow-list of hosts, and what their addresses may be."""

from typing import NamedTuple, Self

from stepagent.web.addresses import is_own, is_public
from stepagent.web.errors import WebRefused
from stepagent.web.urls import DEFAULT_PORTS, Address, Url, address_in, read_authority


class AllowedHost(NamedTuple):
    """One entry of an allow-list: a scheme, a host, and a port where it is not the scheme's own.

    `api.example.com`, `api.example.com:8443`, `*.example.com` (its subdomains, not itself), `93.184.216.34`, and with
    plain HTTP, which anybody on the way can read and change, `http://legacy.example.com`.
    """

    host: str
    scheme: str = "https"
    port: int | None = None
    subdomains: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads an entry.

        Raises:
            ValueError: it is none; the message says what one looks like.
        """
        scheme, found, authority = text.strip().rpartition("://")
        scheme, subdomains = scheme.lower() if found else "https", authority.startswith("*.")
        try:
            host, port = read_authority(authority.removeprefix("*."))
        except WebRefused as error:
            raise ValueError(f"{text!r} is not a host to allow, such as api.example.com: {error.message}") from error
        if scheme not in DEFAULT_PORTS:
            raise ValueError(f"{text!r} is not a host to allow: leave its scheme out for https, or write http://")
        if subdomains and ("." not in host or address_in(host)):
            raise ValueError(f"{text!r} would allow hosts of anybody: name a domain, such as *.example.com")
        return cls(host, scheme, port, subdomains)

    @classmethod
    def of(cls, url: Url) -> Self:
        """The entry that allows the host of this URL and nothing else."""
        return cls(url.host, url.scheme, url.port if url.names_port else None)

    def matches(self, url: Url) -> bool:
        fits = url.host.endswith(f".{self.host}") if self.subdomains else url.host == self.host
        return fits and (url.scheme, url.port) == (self.scheme, self.port or DEFAULT_PORTS[self.scheme])

    def __str__(self) -> str:
        scheme = "" if self.scheme == "https" else f"{self.scheme}://"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}{'*.' if self.subdomains else ''}{host}{f':{self.port}' if self.port else ''}"


class Permission(NamedTuple):
    """What a sender may reach: these hosts, at public addresses.

    `own_addresses` lets a developer call services of his own machine or network. It takes two decisions of whoever
    deploys: this switch, which functions read from HTTP_ALLOW_PRIVATE and which is off unless that is set, and an entry
    that names both an address and a port, such as `http://127.0.0.1:8080`. A name never leads to such an address,
    whatever it resolves to; and metadata services stay out of reach.
    """

    hosts: tuple[AllowedHost, ...] = ()
    own_addresses: bool = False

    @classmethod
    def parse(cls, hosts: str, own_addresses: bool = False) -> Self:
        """Reads entries, comma separated.

        Raises:
            ValueError: one of them is none.
        """
        return cls(tuple(AllowedHost.parse(entry) for entry in hosts.split(",") if entry.strip()), own_addresses)

    def check(self, url: Url) -> None:
        """Passes if the URL's host is allowed.

        Raises:
            WebRefused: it is not; the message lists what is.
        """
        if not self._entries(url):
            allowed = ", ".join(map(str, self.hosts)) or "none"
            raise WebRefused(f"{_shown(url)} is not allowed. Allowed hosts: {allowed}.")

    def check_address(self, url: Url, address: Address) -> None:
        """Passes if this address of the URL's host may be connected to.

        Raises:
            WebRefused: it may not. The message does not tell the address: it would map the private network.
        """
        named = url.address == address and any(entry.port and not entry.subdomains for entry in self._entries(url))
        if not (is_public(address) or (self.own_addresses and named and is_own(address))):
            raise WebRefused(f"{url.host} is not on the public internet. Requests go to public addresses only.")

    def _entries(self, url: Url) -> list[AllowedHost]:
        return [entry for entry in self.hosts if entry.matches(url)]


def _shown(url: Url) -> str:
    return url.authority if url.scheme == "https" else f"{url.scheme}://{url.authority}"
