"""Which addresses are public: each special block, and each form in which one can hide in another."""

from ipaddress import ip_address

import pytest

from stepagent.web.addresses import is_own, is_public

PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1"]
PUBLIC_6 = ["2606:4700:4700::1111", "2a00:1450:4001::8a", "2001:4860:4860::8888", "64:ff9b::8.8.8.8"]
OWN = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "100.64.0.1",
    "100.127.255.255",
]
OWN_6 = ["::1", "fc00::1", "fd12:3456::1"]
METADATA = ["169.254.169.254", "169.254.170.2", "169.254.169.253", "fd00:ec2::254", "fd00:ec2::253"]
SPECIAL = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
]
SPECIAL_6 = ["::", "fe80::1", "fec0::1", "ff02::1", "100::1", "2001:db8::1", "2001:2::1", "2001:10::1", "3fff::1"]
HIDDEN = [
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::127.0.0.1",
    "::7f00:1",
    "::8.8.8.8",
    "64:ff9b::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::10.0.0.1",
    "64:ff9b::100.64.0.1",
    "64:ff9b:1::127.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "2001:0:7f00:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
]


@pytest.mark.parametrize("text", PUBLIC + PUBLIC_6)
def test_address_is_public_when_it_is_of_no_special_block(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", OWN + OWN_6 + METADATA + SPECIAL + SPECIAL_6 + HIDDEN)
def test_address_is_not_public_when_it_is_special_or_hides_one(text: str) -> None:
    assert not is_public(ip_address(text))


def test_address_is_not_public_when_it_names_a_network_interface() -> None:
    assert not is_public(ip_address("fe80::1%eth0"))


@pytest.mark.parametrize("text", OWN + OWN_6)
def test_address_is_own_when_it_is_of_this_machine_or_network(text: str) -> None:
    assert is_own(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC + PUBLIC_6 + METADATA + SPECIAL + SPECIAL_6 + HIDDEN)
def test_address_is_not_own_when_it_is_public_or_a_service_of_the_cloud(text: str) -> None:
    assert not is_own(ip_address(text))
