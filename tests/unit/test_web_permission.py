"""The allow-list of hosts, and when an address of the deployer's own may be reached."""

from ipaddress import ip_address

import pytest

from stepagent.web.errors import WebRefused
from stepagent.web.permission import AllowedHost, Permission
from stepagent.web.urls import Url


def allows(hosts: str, url: str) -> bool:
    try:
        Permission.parse(hosts).check(Url.parse(url))
    except WebRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ("api.example.com", "https://api.example.com/x"),
        ("API.example.com.", "https://api.example.com/"),
        ("api.example.com", "https://API.EXAMPLE.COM./"),
        ("a.example, api.example.com ,", "https://api.example.com:443/"),
        ("*.example.com", "https://api.example.com/"),
        ("*.example.com", "https://deep.api.example.com/"),
        ("api.example.com:8443", "https://api.example.com:8443/"),
        ("*.example.com:8443", "https://api.example.com:8443/"),
        ("http://api.example.com", "http://api.example.com/"),
        ("http://api.example.com:8080", "http://api.example.com:8080/"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("xn--bcher-kva.example", "https://bücher.example/"),
        ("93.184.216.34", "https://93.184.216.34/"),
        ("[2606:2800::0001]:8443", "https://[2606:2800::1]:8443/"),
    ],
)
def test_host_is_allowed_when_an_entry_names_it(hosts: str, url: str) -> None:
    assert allows(hosts, url)


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ("", "https://api.example.com/"),
        ("api.example.com", "https://www.example.com/"),
        ("api.example.com", "https://api.example.com.evil.example/"),
        ("api.example.com", "https://evil-api.example.com/"),
        ("api.example.com", "https://x.api.example.com/"),
        ("api.example.com", "http://api.example.com/"),
        ("http://api.example.com", "https://api.example.com/"),
        ("api.example.com", "https://api.example.com:8443/"),
        ("api.example.com", "https://api.example.com:80/"),
        ("api.example.com:8443", "https://api.example.com/"),
        ("http://api.example.com:8080", "http://api.example.com/"),
        ("*.example.com", "https://example.com/"),
        ("*.example.com", "https://evilexample.com/"),
        ("*.example.com", "https://api.example.com.evil.example/"),
        ("*.example.com", "https://api.example.com:8443/"),
        ("*.example.com", "http://api.example.com/"),
    ],
)
def test_host_is_refused_when_no_entry_names_it(hosts: str, url: str) -> None:
    assert not allows(hosts, url)


def test_refusal_lists_the_allowed_hosts_when_there_are_some() -> None:
    permission = Permission.parse("api.example.com,*.example.org:8443,http://old.example.net")
    with pytest.raises(WebRefused) as refused:
        permission.check(Url.parse("https://evil.example/secret?key=1"))
    assert refused.value.message == (
        "evil.example is not allowed. Allowed hosts: api.example.com, *.example.org:8443, http://old.example.net."
    )


@pytest.mark.parametrize(
    "entry",
    ["*", "*.", "*.com", "*.1.2.3.4", "*.[::1]", "ftp://a.example", "user@a.example", "a.example/path", "a b", "127.1"],
)
def test_entry_is_refused_when_it_is_no_host(entry: str) -> None:
    with pytest.raises(ValueError, match="host"):
        AllowedHost.parse(entry)


@pytest.mark.parametrize(
    "entry", ["api.example.com", "*.example.com:8443", "http://127.0.0.1:8080", "[2606:2800::1]:8443"]
)
def test_entry_is_shown_as_it_is_written(entry: str) -> None:
    assert str(AllowedHost.parse(entry)) == entry


def reaches(hosts: str, url: str, address: str, own_addresses: bool) -> bool:
    try:
        Permission.parse(hosts, own_addresses).check_address(Url.parse(url), ip_address(address))
    except WebRefused:
        return False
    return True


LOCAL = "http://127.0.0.1:8080"


def test_own_address_is_reached_when_switched_on_and_named_with_its_port() -> None:
    assert reaches(LOCAL, f"{LOCAL}/x", "127.0.0.1", own_addresses=True)


@pytest.mark.parametrize(
    ("hosts", "url", "address", "own_addresses"),
    [
        (LOCAL, f"{LOCAL}/x", "127.0.0.1", False),
        ("http://127.0.0.1", "http://127.0.0.1/", "127.0.0.1", True),
        ("http://localhost:8080", "http://localhost:8080/", "127.0.0.1", True),
        ("api.example.com:8443", "https://api.example.com:8443/", "10.0.0.1", True),
        ("http://169.254.169.254:80", "http://169.254.169.254/", "169.254.169.254", True),
        ("http://[fd00:ec2::254]:80", "http://[fd00:ec2::254]/", "fd00:ec2::254", True),
        ("http://[::ffff:7f00:1]:8080", "http://[::ffff:7f00:1]:8080/", "::ffff:7f00:1", True),
        ("http://0.0.0.0:8080", "http://0.0.0.0:8080/", "0.0.0.0", True),
    ],
)
def test_own_address_is_refused_when_either_decision_is_missing(
    hosts: str, url: str, address: str, own_addresses: bool
) -> None:
    assert not reaches(hosts, url, address, own_addresses)


def test_refusal_does_not_tell_the_address_when_a_name_leads_to_a_private_one() -> None:
    with pytest.raises(WebRefused) as refused:
        Permission.parse("api.example.com").check_address(Url.parse("https://api.example.com/"), ip_address("10.1.2.3"))
    assert "10.1.2.3" not in refused.value.message
