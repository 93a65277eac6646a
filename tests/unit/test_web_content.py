"""What an answer says, and that no secret is in it, however a server spells it."""

import base64
import html
import json
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from stepagent.web.content import content_of, text_of
from stepagent.web.redaction import HIDDEN, Redaction
from stepagent.web.reply import WebResponse
from stepagent.web.urls import Url

SECRET = 's3c/ret+"k& y="'


def response(body: bytes, content_type: str = "", *, cut: bool = False, status: int = 200) -> WebResponse:
    headers = {"content-type": content_type} if content_type else {}
    return WebResponse(status, headers, body, Url.parse("https://api.example.com/"), cut)


@pytest.mark.parametrize("media_type", ["application/json", "application/problem+json; charset=utf-8", "text/json"])
def test_content_is_the_value_when_it_is_json(media_type: str) -> None:
    body = b'{"big": 12345678901234567890123, "none": null, "items": [1.5, true, ""]}'
    assert content_of(response(body, media_type)) == {
        "big": 12345678901234567890123,
        "none": None,
        "items": [1.5, True, ""],
    }


@pytest.mark.parametrize("body", [b"{oops", b"[" * 200 + b"]" * 200, b"[" * 100_000, b"9" * 5_000])
def test_content_is_the_text_when_json_is_broken_or_too_deep(body: bytes) -> None:
    assert content_of(response(body, "application/json")) == body.decode()


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("grün".encode(), "text/plain", "grün"),
        ("grün".encode("latin-1"), "text/plain; charset=iso-8859-1", "grün"),
        ("grün".encode("cp1252"), 'text/plain; charset="windows-1252"', "grün"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        ("日本".encode("euc_jp"), "text/html; charset=euc-jp", "日本"),
        ("日本".encode("utf-16"), "text/plain; charset=utf-16", "日本"),
        (b"\xef\xbb\xbfx", "text/plain", "x"),
        ("grün".encode("latin-1"), "text/plain", "gr\ufffdn"),
        (b"x", "text/plain; charset=nonsense", "x"),
        (b"x", "text/plain; charset=", "x"),
        (b"<a/>", "application/xml", "<a/>"),
        (b"<svg/>", "image/svg+xml", "<svg/>"),
        (b"a,b", "", "a,b"),
        (b"a=b", "application/x-www-form-urlencoded", "a=b"),
    ],
)
def test_content_is_text_when_it_can_be_read_as_such(body: bytes, content_type: str, text: str) -> None:
    assert content_of(response(body, content_type)) == text


@pytest.mark.parametrize(
    "charset", ["idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7", "zlib", "rot13"]
)
def test_charset_is_ignored_when_it_is_none_of_text(charset: str) -> None:
    body = b"xn--\\u0041+AGE-" * 20_000
    began = time.process_time()
    assert text_of(response(body, f"text/plain; charset={charset}")) == body.decode()
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\x89PNG\r\n", "image/png"),
        (b"%PDF-1.7", "application/pdf"),
        (b"plain words", "application/octet-stream"),
        (b"\xff\xfe\x00\x01", ""),
        (b"a\x00b", "text/plain"),
        (b"\x93\xff\xfeabc", "application/x-unknown"),
    ],
)
def test_content_is_described_when_it_is_no_text(body: bytes, content_type: str) -> None:
    described = content_of(response(body, content_type))
    assert base64.b64decode(described.pop("base64")) == body
    assert described == {"media_type": content_type or "application/unknown", "size_bytes": len(body)} or (
        content_type == "text/plain"
    )


@pytest.mark.parametrize("cut", [False, True])
def test_bytes_are_left_out_when_they_are_many_or_cut(cut: bool) -> None:
    described = content_of(response(bytes(100 if cut else 5_000), "image/png", cut=cut))
    assert "base64" not in described
    assert "not shown" in described["note"]


def test_content_says_so_when_there_is_none() -> None:
    assert content_of(response(b"", status=204)) == "(no content, status 204)"


def test_content_ends_with_a_note_when_it_was_cut() -> None:
    content = content_of(response(b'{"a": [1, 2', "application/json", cut=True))
    assert content.startswith('{"a": [1, 2\n… (cut')
    assert "11 bytes" in content


def spelled() -> list[Any]:
    return [
        SECRET,
        f"Bearer {SECRET}",
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower().replace("s3c", "s3c"),
        quote_plus(SECRET),
        html.escape(SECRET),
        json.dumps({"key": SECRET}),
        json.dumps({"key": SECRET}).replace("/", "\\/"),
        base64.b64encode(SECRET.encode()).decode(),
        f"before {SECRET} between {SECRET} after",
    ]


@pytest.mark.parametrize("text", spelled())
@pytest.mark.parametrize("content_type", ["text/plain", "application/json", ""])
def test_secret_is_hidden_when_the_server_repeats_it(text: str, content_type: str) -> None:
    content = str(content_of(response(text.encode(), content_type), Redaction([SECRET])))
    assert HIDDEN in content
    assert all(spelling not in content for spelling in (SECRET, quote(SECRET, safe=""), html.escape(SECRET)))


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({SECRET: [SECRET, {"a": f"x{SECRET}"}]}, {HIDDEN: [HIDDEN, {"a": f"x{HIDDEN}"}]}),
        ([1, None, True, 2.5, "x"], [1, None, True, 2.5, "x"]),
    ],
)
def test_secret_is_hidden_when_it_stands_anywhere_in_json(value: Any, hidden: Any) -> None:
    body = json.dumps(value).encode()
    assert content_of(response(body, "application/json"), Redaction([SECRET])) == hidden


def test_secret_is_hidden_when_it_is_a_number() -> None:
    assert content_of(response(b'{"pin": 918273645}', "application/json"), Redaction(["918273645"])) == {"pin": HIDDEN}


def test_secret_is_hidden_when_only_its_beginning_was_read() -> None:
    body = b"key: " + SECRET.encode()[:7]
    content = content_of(response(body, "text/plain", cut=True), Redaction([SECRET]))
    assert content.startswith("key: \n… (cut")


def test_secret_is_hidden_when_it_stands_in_bytes() -> None:
    described = content_of(response(b"\x00" + SECRET.encode(), "application/octet-stream"), Redaction([SECRET]))
    assert "base64" not in described


def test_longer_secret_is_hidden_whole_when_another_is_part_of_it() -> None:
    assert Redaction(["abc", "abcdef"]).text("abcdef") == HIDDEN
