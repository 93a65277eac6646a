"""Which addresses belong to servers on the public internet."""

from ipaddress import IPv4Address, IPv4Network, IPv6Network

from stepagent.web.urls import Address

# https://www.iana.org/assignments/iana-ipv4-special-registry: written out, since Python's own list differs by version.
_SPECIAL_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",  # loopback; Lambda's runtime API is here
            "169.254.0.0/16",  # link-local; metadata services are here
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

# All else of IPv6 is special: mapped and compatible addresses, fc00::/7, fe80::/10, ff00::/8, ::1, ::
_UNICAST_6 = IPv6Network("2000::/3")
_SPECIAL_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")  # the public form of IPv4 addresses in networks that have IPv6 alone

_OWN_4 = tuple(map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_OWN_6 = tuple(map(IPv6Network, ("::1/128", "fc00::/7")))
_AWS_SERVICES_6 = IPv6Network("fd00:ec2::/32")  # metadata, DNS and time of an instance


def is_public(address: Address) -> bool:
    """Whether it is an address of the public internet, in its usual form."""
    if isinstance(address, IPv4Address):
        return not _in_any(address, _SPECIAL_4)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _UNICAST_6 and not any(address in network for network in _SPECIAL_6)


def is_own(address: Address) -> bool:
    """Whether it is this machine or of a private network. Services of the cloud at such addresses are not."""
    if isinstance(address, IPv4Address):
        return _in_any(address, _OWN_4)
    return address not in _AWS_SERVICES_6 and any(address in network for network in _OWN_6)


def _in_any(address: IPv4Address, networks: tuple[IPv4Network, ...]) -> bool:
    return any(address in network for network in networks)
