"""The public keys of a token issuer: found by its discovery document, kept, and asked for anew within bounds.

Only `authorize` has the packages for this.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from jwt import PyJWK, PyJWTError
from pydantic_core import from_json

from stepagent.errors import StepAgentError
from stepagent.observe import logger
from stepagent.settings import settings
from stepagent.web import client as web
from stepagent.web.errors import WebError
from stepagent.web.permission import AllowedHost, Permission
from stepagent.web.request import WebRequest
from stepagent.web.urls import Url

ALGORITHMS = frozenset({"RS256", "ES256", "EdDSA"})

_Keys = Mapping[str, PyJWK]

_DISCOVERY = "/.well-known/openid-configuration"
_BOUNDS = web.Bounds(seconds=4, response_bytes=262_144, redirects=0)
_MAX_KEYS = 100
_LEAST_RSA_BITS = 2048
_FRESH_S = 3_600
_USABLE_S = 86_400  # while the issuer does not answer
_PAUSE_S = 10  # between two requests, whatever the tokens say and whoever sends them


class IssuerUnavailable(StepAgentError):
    """The issuer's keys could not be read, so that nobody knows whether a token is genuine. Trying again may help."""

    code = "issuer_unavailable"


class SigningKeys:
    """An issuer's keys by id, read when one is needed that is not known or when they are an hour old.

    A token can name any id, so the issuer is asked at most once in ten seconds. While it does not answer, the keys that
    it gave last are used for a day.
    """

    def __init__(self, read: Callable[[], _Keys], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._keys: _Keys = {}
        self._read_at = self._asked_at = -float("inf")

    def find(self, key_id: str) -> PyJWK | None:
        """The key with this id, or None where the issuer has none.

        Raises:
            IssuerUnavailable: its keys are not known.
        """
        if key_id not in self._keys or self._age_s > _FRESH_S:
            self._refresh()
        if self._age_s > _USABLE_S:
            raise IssuerUnavailable("The keys of the token issuer cannot be read.")
        return self._keys.get(key_id)

    @property
    def _age_s(self) -> float:
        return self._clock() - self._read_at

    def _refresh(self) -> None:
        if self._clock() - self._asked_at < _PAUSE_S:
            return
        self._asked_at = self._clock()
        try:
            self._keys = self._read()
        except (WebError, ValueError) as error:
            logger.error("keys of the issuer not read", extra={"reason": str(error)})
        else:
            self._read_at = self._clock()


@cache
def keys_of(issuer: str) -> SigningKeys:
    """The keys of an issuer (https URL), once a process."""
    return SigningKeys(lambda: read_keys(issuer))


def read_keys(issuer: str) -> dict[str, PyJWK]:
    """Asks the issuer, and where it says that its keys are.

    Raises:
        WebError: it cannot be asked.
        ValueError: what it says is no discovery document of this issuer, or no set of keys.
    """
    found = _fetch(issuer.rstrip("/") + _DISCOVERY)
    if found.get("issuer") != issuer:
        raise ValueError("the discovery document is that of another issuer")
    listed = _fetch(str(found.get("jwks_uri"))).get("keys")
    if not isinstance(listed, list):
        raise ValueError("the issuer gave no set of keys")
    return dict(_usable(listed[:_MAX_KEYS]))


def _fetch(address: str) -> dict[str, Any]:
    url, private = Url.parse(address), settings().http_allow_private
    if url.scheme != "https" and not private:
        raise ValueError("an issuer is asked by https alone")
    response = web.send(WebRequest("GET", url), Permission((AllowedHost.of(url),), private), _BOUNDS)
    if response.status != 200 or response.cut:
        raise ValueError(f"{url.host} answered with status {response.status}{' and too much' if response.cut else ''}")
    content = from_json(response.body)
    if not isinstance(content, dict):
        raise ValueError(f"{url.host} answered with something else than an object")
    return content


def _usable(listed: list[Any]) -> Iterator[tuple[str, PyJWK]]:
    """The keys that signatures may be checked with: with an id, for signing, and for an algorithm that is allowed."""
    for entry in listed:
        if not (isinstance(entry, dict) and isinstance(entry.get("kid"), str) and entry.get("use", "sig") == "sig"):
            continue
        try:
            key = PyJWK(entry)
        except (PyJWTError, TypeError, ValueError):  # of a kind that is not known here, or not written as keys are
            continue
        if key.algorithm_name in ALGORITHMS and getattr(key.key, "key_size", _LEAST_RSA_BITS) >= _least_bits(key):
            yield entry["kid"], key


def _least_bits(key: PyJWK) -> int:
    return _LEAST_RSA_BITS if key.key_type == "RSA" else 0
