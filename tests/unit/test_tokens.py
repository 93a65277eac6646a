"""Tokens of an issuer: whom they name, which are refused, and how often the issuer is asked for its keys."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from stepagent.api.keys import is_name
from stepagent.api.signing_keys import IssuerUnavailable, SigningKeys, keys_of, read_keys
from stepagent.api.tokens import caller_of_token
from stepagent.clock import now
from stepagent.errors import ConfigurationError
from stepagent.web import client as web
from stepagent.web.errors import WebUnreachable
from stepagent.web.reply import WebResponse
from stepagent.web.request import WebRequest
from stepagent.web.urls import Url
from tests.functions import load

ISSUER = "https://login.example.com/"
AUDIENCE = "stepagent"
RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_RSA_KEY = rsa.generate_private_key(65537, 2048)
WEAK_KEY = rsa.generate_private_key(65537, 1024)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
P384_KEY = ec.generate_private_key(ec.SECP384R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
RSA_PEM = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

Json = dict[str, Any]


def public(key: Any, key_id: str, **more: Any) -> Json:
    algorithm = {rsa.RSAPrivateKey: RSAAlgorithm, ed25519.Ed25519PrivateKey: OKPAlgorithm}
    kind: Any = next((made for of, made in algorithm.items() if isinstance(key, of)), ECAlgorithm)
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": key_id, **more}


SET: list[Json] = [
    public(RSA_KEY, "rsa", alg="RS256", use="sig"),
    public(EC_KEY, "ec"),
    public(ED_KEY, "ed"),
    public(WEAK_KEY, "weak"),
    public(P384_KEY, "p384"),
    public(RSA_KEY, "rs512", alg="RS512"),
    public(RSA_KEY, "encrypts", use="enc"),
    {"kty": "oct", "kid": "oct", "k": base64.urlsafe_b64encode(b"x" * 32).decode()},
    {"kty": "RSA", "kid": "broken", "n": "?", "e": "AQAB"},
    {"kty": "new", "kid": "unknown"},
    {"kty": "RSA", "kid": "listed", "n": "AQAB", "e": "AQAB", "alg": ["RS256"]},
    {"kty": "EC", "kid": "numbers", "crv": ["P-256"], "x": 1, "y": 2},
    {"kid": 7},
]


class Issuer:
    """Answers requests by their URL. Stands for `stepagent.web.client.send`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False
        self.documents: dict[str, Any] = {
            f"{ISSUER}.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": "https://keys.example.com/set"},
            "https://keys.example.com/set": {"keys": SET},
        }

    def send(self, request: WebRequest, permission: Any, bounds: web.Bounds) -> WebResponse:
        permission.check(request.url)
        self.asked.append(str(request.url))
        if self.down:
            raise WebUnreachable("it is down")
        found = self.documents.get(str(request.url))
        return WebResponse(200 if found is not None else 404, {}, json.dumps(found).encode(), request.url)


@pytest.fixture(autouse=True)
def issuer(monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]) -> Iterator[Issuer]:
    set_environment(JWT_ISSUER=ISSUER, JWT_AUDIENCE=AUDIENCE, JWT_SCOPE_CLAIM="scope", API_KEY_HASHES="")
    answering = Issuer()
    monkeypatch.setattr(web, "send", answering.send)
    keys_of.cache_clear()
    yield answering
    keys_of.cache_clear()


def claims(**changes: Any) -> Json:
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now() + timedelta(minutes=5), **changes}
    return {name: value for name, value in said.items() if value is not None}


def token(
    key: Any = RSA_KEY, algorithm: str = "RS256", kid: Any = "rsa", headers: Json | None = None, **said: Any
) -> str:
    return jwt.encode(claims(**said), key, algorithm, {"kid": kid, **(headers or {})})


def raw(header: Mapping[str, Any], payload: bytes, sign: Callable[[bytes], bytes] = lambda text: b"") -> str:
    """A token that no library would make."""
    parts = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (json.dumps(header).encode(), payload)]
    signature = base64.urlsafe_b64encode(sign(b".".join(parts))).rstrip(b"=")
    return b".".join([*parts, signature]).decode()


def payload(**changes: Any) -> bytes:
    return json.dumps(claims(**{"exp": int(now().timestamp()) + 300, **changes})).encode()


def hmac_of(secret: bytes) -> Callable[[bytes], bytes]:
    return lambda text: hmac.new(secret, text, hashlib.sha256).digest()


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA_KEY, "RS256", "rsa"), (EC_KEY, "ES256", "ec"), (ED_KEY, "EdDSA", "ed")]
)
def test_token_names_its_caller_when_a_key_of_the_issuer_signed_it(key: Any, algorithm: str, kid: str) -> None:
    caller = caller_of_token(token(key, algorithm, kid))
    assert caller is not None
    assert (caller.principal, caller.scopes, caller.used_key) == (f"{ISSUER}#ann", frozenset(), None)


@pytest.mark.parametrize("aud", [AUDIENCE, [AUDIENCE, "other"]])
def test_token_is_taken_when_its_audience_is_ours(aud: Any) -> None:
    assert caller_of_token(token(aud=aud)) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://login.example.com"},
        {"iss": "https://evil.example.com/"},
        {"iss": [ISSUER]},
        {"iss": None},
        {"aud": "other"},
        {"aud": []},
        {"aud": None},
        {"aud": {AUDIENCE: 1}},
        {"exp": None},
        {"exp": float("inf")},
        {"exp": "soon"},
        {"sub": None},
        {"sub": ""},
        {"sub": "a\nb"},
        {"sub": "ann\n"},
        {"sub": "ànn"},
        {"sub": "x" * 256},
    ],
    ids=str,
)
def test_token_is_refused_when_a_claim_is_not_right(changes: Json) -> None:
    sign = RSAAlgorithm(RSAAlgorithm.SHA256)
    forged = raw({"alg": "RS256", "kid": "rsa"}, payload(**changes), lambda text: sign.sign(text, RSA_KEY))
    assert caller_of_token(forged) is None


@pytest.mark.parametrize("sub", [7, ["ann"], {"a": 1}, True])
def test_token_is_refused_when_its_subject_is_no_text(sub: Any) -> None:
    sign = RSAAlgorithm(RSAAlgorithm.SHA256)
    assert (
        caller_of_token(raw({"alg": "RS256", "kid": "rsa"}, payload(sub=sub), lambda t: sign.sign(t, RSA_KEY))) is None
    )


@pytest.mark.parametrize(("seconds", "taken"), [(-20, True), (-40, False)])
def test_token_is_taken_half_a_minute_longer_than_it_says(seconds: int, taken: bool) -> None:
    assert (caller_of_token(token(exp=now() + timedelta(seconds=seconds))) is not None) is taken


@pytest.mark.parametrize(("seconds", "taken"), [(20, True), (40, False)])
@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_token_is_taken_half_a_minute_earlier_than_it_says(claim: str, seconds: int, taken: bool) -> None:
    moment = now() + timedelta(seconds=seconds)
    assert (
        caller_of_token(jwt.encode(claims(**{claim: moment}), RSA_KEY, "RS256", {"kid": "rsa"})) is not None
    ) is taken


FORGED = {
    "no algorithm": raw({"alg": "none", "kid": "rsa"}, payload()),
    "no algorithm, in capitals": raw({"alg": "NONE", "kid": "rsa"}, payload()),
    "algorithm left out": raw({"kid": "rsa"}, payload()),
    "algorithm is no text": raw({"alg": ["RS256"], "kid": "rsa"}, payload()),
    "public key as a secret": raw({"alg": "HS256", "kid": "rsa"}, payload(), hmac_of(RSA_PEM)),
    "published secret": raw({"alg": "HS256", "kid": "oct"}, payload(), hmac_of(b"x" * 32)),
    "another key under this id": token(OTHER_RSA_KEY),
    "another kind of key under this id": token(EC_KEY, "ES256", "rsa"),
    "another hash than the key's": token(RSA_KEY, "RS512", "rsa"),
    "a padding that is not listed": token(RSA_KEY, "PS256", "rsa"),
    "a key for another algorithm": token(RSA_KEY, "RS512", "rs512"),
    "a key for encryption": token(RSA_KEY, "RS256", "encrypts"),
    "a key that is too short": raw(
        {"alg": "RS256", "kid": "weak"}, payload(), lambda text: RSAAlgorithm(RSAAlgorithm.SHA256).sign(text, WEAK_KEY)
    ),
    "a curve that is not listed": token(P384_KEY, "ES384", "p384"),
    "a key that is brought along": token(OTHER_RSA_KEY, headers={"jwk": public(OTHER_RSA_KEY, "rsa")}),
    "a place to fetch keys from": token(OTHER_RSA_KEY, kid="evil", headers={"jku": "https://evil.example.com/set"}),
    "a certificate that is brought along": token(
        OTHER_RSA_KEY, kid="evil", headers={"x5u": "https://evil.example.com"}
    ),
    "an extension that must be understood": token(headers={"crit": ["evil"], "evil": 1}),
    "a path as an id": token(OTHER_RSA_KEY, kid="../../../../dev/null"),
    "a query as an id": token(OTHER_RSA_KEY, kid="rsa' OR '1'='1"),
    "no id": jwt.encode(claims(), RSA_KEY, "RS256"),
    "an id that is no text": raw({"alg": "RS256", "kid": ["rsa"]}, payload()),
    "no signature": token().rpartition(".")[0] + ".",
    "a signature of zeros": raw({"alg": "ES256", "kid": "ec"}, payload(), lambda text: b"\0" * 64),
    "other claims under a signature": ".".join(
        [token().split(".")[0], token(sub="bob").split(".")[1], token().split(".")[2]]
    ),
    "claims that are no object": raw({"alg": "RS256", "kid": "rsa"}, b'["ann"]'),
    "header that is no object": raw(["RS256"], payload()),  # type: ignore[arg-type]  # on purpose
    "header that is nested deeply": f"{base64.urlsafe_b64encode(b'[' * 5_000).decode().rstrip('=')}.e30.x",
    "five parts": token() + ".x.y",
    "nothing between dots": "..",
    "no base 64": "ü.ü.ü",
    "half a character": "\ud800.\ud800.\ud800",
    "a huge header": token(headers={"x": "y" * 10_000}),
    "huge claims": token(x="y" * 10_000),
}


@pytest.mark.parametrize("name", FORGED)
def test_token_is_refused_when_it_is_forged(name: str) -> None:
    assert caller_of_token(FORGED[name]) is None


def test_issuer_is_not_asked_when_the_text_is_no_token(issuer: Issuer) -> None:
    for text in ("", "sk-key", "..." * 10, "x" * 10_000, "a.b.c." + "x" * 10_000):
        assert caller_of_token(text) is None
    assert issuer.asked == []


def test_only_the_issuer_and_where_it_keeps_its_keys_are_asked(issuer: Issuer) -> None:
    for forged in FORGED.values():
        caller_of_token(forged)
    assert {Url.parse(address).host for address in issuer.asked} == {"login.example.com", "keys.example.com"}


def test_no_token_is_taken_when_no_issuer_is_set(set_environment: Callable[..., None], issuer: Issuer) -> None:
    set_environment(JWT_ISSUER="")
    assert (caller_of_token(token()), issuer.asked) == (None, [])


def test_tokens_are_not_looked_at_when_no_audience_is_set(set_environment: Callable[..., None]) -> None:
    set_environment(JWT_AUDIENCE="")
    with pytest.raises(ConfigurationError, match="JWT_AUDIENCE"):
        caller_of_token(token())


@pytest.mark.parametrize(
    ("claim", "scopes"),
    [
        ("catalog other", {"catalog", "other"}),
        (["catalog"], {"catalog"}),
        ([1, "a b", ""], set()),
        ({"catalog": 1}, set()),
    ],
)
def test_token_has_the_scopes_that_its_claim_lists(claim: Any, scopes: set[str]) -> None:
    caller = caller_of_token(token(scope=claim))
    assert caller is not None
    assert caller.scopes == scopes


def test_token_has_no_scopes_when_no_claim_is_set(set_environment: Callable[..., None]) -> None:
    set_environment(JWT_SCOPE_CLAIM="")
    said = claims(scope="catalog", **{"": "catalog"})
    caller = caller_of_token(jwt.encode(said, RSA_KEY, "RS256", {"kid": "rsa"}))
    assert caller is not None
    assert caller.scopes == frozenset()


def test_token_names_its_caller_by_the_claim_that_is_set(set_environment: Callable[..., None]) -> None:
    set_environment(JWT_PRINCIPAL_CLAIM="oid")
    caller = caller_of_token(token(oid="7f"))
    assert caller is not None
    assert caller.principal == f"{ISSUER}#7f"


def test_authorizer_admits_a_token_and_refuses_a_forged_one() -> None:
    handler = load("authorize", "app").handler
    effects = []
    for text in (token(), token(OTHER_RSA_KEY)):
        event = {"methodArn": "arn:aws:execute-api:r:1:api/v1/GET/models", "authorizationToken": f"Bearer {text}"}
        effects.append(handler(event, None)["policyDocument"]["Statement"][0]["Effect"])
    assert effects == ["Allow", "Deny"]


# ---- the keys of the issuer


def test_keys_are_those_that_may_check_signatures() -> None:
    assert set(read_keys(ISSUER)) == {"rsa", "ec", "ed"}


@pytest.mark.parametrize(
    "changes",
    [
        {
            f"{ISSUER}.well-known/openid-configuration": {
                "issuer": "https://evil.example.com/",
                "jwks_uri": "https://k.example/",
            }
        },
        {f"{ISSUER}.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": "http://keys.example.com/set"}},
        {f"{ISSUER}.well-known/openid-configuration": {"issuer": ISSUER}},
        {f"{ISSUER}.well-known/openid-configuration": ["no object"]},
        {f"{ISSUER}.well-known/openid-configuration": None},
        {"https://keys.example.com/set": {"keys": {}}},
        {"https://keys.example.com/set": None},
    ],
    ids=["another issuer", "no https", "no place", "a list", "missing", "no list of keys", "keys missing"],
)
def test_nobody_is_refused_for_good_when_the_issuer_answers_wrongly(issuer: Issuer, changes: Json) -> None:
    issuer.documents.update(changes)
    with pytest.raises(IssuerUnavailable):
        caller_of_token(token())


class Clock:
    """Seconds that pass when a test says so. Stands for `time.monotonic`."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


class Source:
    """Gives keys and counts how often. Stands for `read_keys`."""

    def __init__(self, *ids: str) -> None:
        self.ids, self.reads, self.down = list(ids), 0, False

    def __call__(self) -> Any:
        self.reads += 1
        if self.down:
            raise WebUnreachable("it is down")
        return dict.fromkeys(self.ids, "a key")


def test_issuer_is_asked_once_when_its_keys_are_known() -> None:
    source = Source("a", "b")
    keys = SigningKeys(source, Clock())
    assert all(keys.find(name) for name in "abab")
    assert source.reads == 1


def test_new_key_is_found_when_the_issuer_changed_its_keys() -> None:
    source, clock = Source("a"), Clock()
    keys = SigningKeys(source, clock)
    keys.find("a")
    source.ids, clock.at = ["b"], clock.at + 10
    assert (bool(keys.find("b")), keys.find("a"), source.reads) == (True, None, 2)


def test_issuer_is_asked_at_most_once_in_ten_seconds_when_tokens_name_ids_at_random() -> None:
    source, clock = Source("a"), Clock()
    keys = SigningKeys(source, clock)
    for number in range(1_000):  # for 60 seconds
        clock.at += 0.06
        assert keys.find(f"random {number}") is None
    assert source.reads <= 7


def test_key_that_was_taken_back_is_forgotten_within_an_hour() -> None:
    source, clock = Source("a"), Clock()
    keys = SigningKeys(source, clock)
    keys.find("a")
    source.ids, clock.at = [], clock.at + 3_601
    assert keys.find("a") is None


@pytest.mark.parametrize(("hours", "usable"), [(2, True), (23, True), (25, False)])
def test_known_keys_are_used_for_a_day_while_the_issuer_does_not_answer(hours: int, usable: bool) -> None:
    source, clock = Source("a"), Clock()
    keys = SigningKeys(source, clock)
    keys.find("a")
    source.down, clock.at = True, clock.at + hours * 3_600
    if usable:
        assert keys.find("a")
    else:
        with pytest.raises(IssuerUnavailable):
            keys.find("a")


def test_issuer_that_is_down_is_not_asked_for_each_token() -> None:
    source = Source("a")
    source.down = True
    keys = SigningKeys(source, Clock())
    for _ in range(5):
        with pytest.raises(IssuerUnavailable):
            keys.find("a")
    assert source.reads == 1


def test_principals_of_tokens_are_no_names_of_keys() -> None:
    caller = caller_of_token(token(sub="ann"))
    assert caller is not None
    assert not is_name(caller.principal)
