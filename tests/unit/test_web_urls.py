"""URLs in one plain form: every spelling that could mean another host is refused, or read as what it is."""

import pytest

from stepagent.web.errors import WebRefused
from stepagent.web.urls import MAX_URL_CHARS, Url


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://api.example.com/", "api.example.com"),
        ("https://API.Example.COM/", "api.example.com"),
        ("HTTPS://api.example.com", "api.example.com"),
        ("https://api.example.com./", "api.example.com"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("https://BÜCHER.example/", "xn--bcher-kva.example"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("https://XN--BCHER-KVA.example/", "xn--bcher-kva.example"),
        ("https://straße.example/", "xn--strae-oqa.example"),
        ("https://api。example。com/", "api.example.com"),
        ("https://ａｐｉ.example.com/", "api.example.com"),
        ("https://my_service.example.com/", "my_service.example.com"),
        ("https://93.184.216.34/", "93.184.216.34"),
        ("https://[2606:2800:0220:0001:0248:1893:25C8:1946]/", "2606:2800:220:1:248:1893:25c8:1946"),
        ("https://１２７.0.0.1/", "127.0.0.1"),
        ("https://①②⑦.0.0.1/", "127.0.0.1"),
        ("https://127。0。0。1/", "127.0.0.1"),
        ("https://[::ffff:7f00:1]/", "::ffff:7f00:1"),
    ],
)
def test_host_has_one_form_when_it_is_spelled_otherwise(text: str, host: str) -> None:
    assert Url.parse(text).host == host


@pytest.mark.parametrize(
    "text",
    [
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.0.0.1/",
        "https://0X7F.1/",
        "https://017700000001/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://127.0.0.1.5/",
        "https://127.0.0.256/",
        "https://127.0.0.01/",
        "https://0x/",
        "https://1/",
        "https://example.0x10/",
        "https://127.0.0.1../",
    ],
)
def test_host_is_refused_when_it_is_an_address_in_an_odd_spelling(text: str) -> None:
    with pytest.raises(WebRefused):
        Url.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://user@api.example.com/",
        "https://user:password@api.example.com/",
        "https://@api.example.com/",
        "https://:@api.example.com/",
        "https://api.example.com@evil.example/",
        "https://api.example.com%40evil.example/",
        "https://api.example.com:443@evil.example/",
        "https://evil.example\\@api.example.com/",
        "https://api.example.com\\.evil.example/",
        "https://evil.example\\/api.example.com",
    ],
)
def test_url_is_refused_when_something_stands_before_its_host(text: str) -> None:
    with pytest.raises(WebRefused):
        Url.parse(text)


def test_message_speaks_of_credentials_when_a_url_holds_some() -> None:
    with pytest.raises(WebRefused, match="credentials") as refused:
        Url.parse("https://user:s3cret@api.example.com/")
    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize(
    "scheme", ["ftp", "file", "gopher", "ws", "wss", "data", "jar", "unix", "javascript", "https+unix", "view-source"]
)
def test_url_is_refused_when_its_scheme_is_another(scheme: str) -> None:
    with pytest.raises(WebRefused, match="use https"):
        Url.parse(f"{scheme}://api.example.com/")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.com",
        "/v1/items",
        "//api.example.com/",
        "https:/api.example.com/",
        "https:api.example.com",
        "https:///v1",
        "https://",
        "https://?q=1",
        "https://api.example.com:/",
        "https://api.example.com:0/",
        "https://api.example.com:65536/",
        "https://api.example.com:+443/",
        "https://api.example.com:４４３/",
        "https://api.example.com:443:443/",
        "https://api..example.com/",
        "https://.example.com/",
        "https://./",
        "https://-api.example.com/",
        "https://api%2eexample%2ecom/",
        "https://127%2e0%2e0%2e1/",
        "https://api.example.com%00.evil.example/",
        "https://api example.com/",
        "https://api.example.com/a b",
        "https://api.example.com/a\\b",
        " https://api.example.com/",
        "https://api.example.com/\r\nHost: evil.example",
        "https://api.exa\tmple.com/",
        "https://api.example.com/\x00",
        "https://api.example.com/\u202e",
        "https://api.example\u200b.com/",
        "https://xn--a.example/",
        f"https://{'a' * 64}.example/",
        f"https://{'a.' * 130}example/",
        "https://[::1/",
        "https://::1/",
        "https://[]/",
        "https://[fe80::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://[127.0.0.1]/",
        "https://[v1.fe80::a]/",
        "https://[::1]a/",
        "https://*.example.com/",
        "https://api.example.com/" + "a" * MAX_URL_CHARS,
    ],
)
def test_url_is_refused_when_it_is_not_a_plain_one(text: str) -> None:
    with pytest.raises(WebRefused):
        Url.parse(text)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("https://a.example", "/"),
        ("https://a.example?q=1", "/?q=1"),
        ("https://a.example/x?q=1#part", "/x?q=1"),
        ("https://a.example/%2e%2e/x", "/%2e%2e/x"),
        ("https://a.example/ü?ü", "/%C3%BC?%C3%BC"),
        ("https://a.example/x?", "/x?"),
        ("https://a.example/x?u=https://b.example/?z", "/x?u=https://b.example/?z"),
    ],
)
def test_target_is_path_and_query_when_it_is_sent(text: str, target: str) -> None:
    assert Url.parse(text).target == target


@pytest.mark.parametrize(
    ("text", "port", "authority"),
    [
        ("https://a.example/", 443, "a.example"),
        ("http://a.example/", 80, "a.example"),
        ("https://a.example:443/", 443, "a.example"),
        ("https://a.example:8443/", 8443, "a.example:8443"),
        ("http://a.example:443/", 443, "a.example:443"),
        ("https://[2606:2800::1]:8443/", 8443, "[2606:2800::1]:8443"),
        ("https://[2606:2800::1]/", 443, "[2606:2800::1]"),
    ],
)
def test_port_is_the_schemes_own_when_none_is_named(text: str, port: int, authority: str) -> None:
    url = Url.parse(text)
    assert (url.port, url.authority) == (port, authority)


@pytest.mark.parametrize(
    ("location", "result"),
    [
        ("/b", "https://a.example/b"),
        ("c?x=1", "https://a.example/v1/c?x=1"),
        ("../../../d", "https://a.example/d"),
        ("?x=1", "https://a.example/v1/items?x=1"),
        ("//b.example/e", "https://b.example/e"),
        ("http://b.example/f", "http://b.example/f"),
    ],
)
def test_redirect_leads_to_what_it_names_when_it_is_relative(location: str, result: str) -> None:
    assert str(Url.parse("https://a.example/v1/items?page=2").join(location)) == result


@pytest.mark.parametrize("location", ["https://[::1", "http://a b/", "https://u@b.example/", "file:///etc/passwd"])
def test_redirect_is_refused_when_it_names_no_plain_url(location: str) -> None:
    with pytest.raises(WebRefused):
        Url.parse("https://a.example/").join(location)
