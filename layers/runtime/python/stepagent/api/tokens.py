"""Tokens (JWT) of the one issuer that a deployment trusts. Only `authorize` has the packages for this."""

import re
from datetime import timedelta
from typing import Any

import jwt

from stepagent.api.keys import Caller
from stepagent.api.signing_keys import keys_of
from stepagent.errors import ConfigurationError
from stepagent.observe import logger
from stepagent.runs import Principal
from stepagent.settings import settings

_MAX_CHARS = 8_192  # API Gateway takes headers of 10 KB together
_SUBJECT = re.compile(r"[ -~]{1,255}")  # as OpenID Connect has it
_LEEWAY = timedelta(seconds=30)  # for clocks that differ


def caller_of_token(token: str) -> Caller | None:
    """The caller whom a genuine token of the issuer names, None for any other text.

    Its principal is issuer and subject together, so that nobody else has it: neither a key, whose names have no colon,
    nor a subject of an issuer that was trusted before.

    Raises:
        IssuerUnavailable: the issuer's keys cannot be read, so that nobody knows.
        ConfigurationError: no audience is set, so that tokens for others would be taken.
    """
    issuer = settings().jwt_issuer
    if not issuer or len(token) > _MAX_CHARS or token.count(".") != 2:
        return None
    if not settings().jwt_audience:
        raise ConfigurationError("JWT_ISSUER needs JWT_AUDIENCE: tokens that are meant for others must not be taken.")
    try:
        return _caller(issuer, _claims(token, issuer))
    except (jwt.PyJWTError, ValueError, OverflowError, RecursionError) as error:  # also what no JSON reader takes
        logger.info("token refused", extra={"reason": type(error).__name__})
        return None


def _claims(token: str, issuer: str) -> dict[str, Any]:
    """What a token says, once its signature, issuer, audience and times are checked.

    The key decides about the algorithm; of what the header says, nothing but the key's id is used.
    """
    key_id = jwt.get_unverified_header(token).get("kid")
    key = keys_of(issuer).find(key_id) if isinstance(key_id, str) else None
    if key is None:
        raise jwt.InvalidKeyError("no key of the issuer has this id")
    return jwt.decode(
        token,
        key,
        algorithms=[key.algorithm_name],
        audience=settings().jwt_audience,
        issuer=issuer,
        leeway=_LEEWAY,
        options={"require": ["exp", "iss", "aud"]},
    )


def _caller(issuer: str, claims: dict[str, Any]) -> Caller:
    subject = claims.get(settings().jwt_principal_claim)
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        raise jwt.InvalidTokenError("the claim of the principal is no name")
    scope_claim = settings().jwt_scope_claim
    return Caller(Principal(f"{issuer}#{subject}"), _scopes(claims.get(scope_claim)) if scope_claim else frozenset())


def _scopes(claim: object) -> frozenset[str]:
    """As a text with spaces or as a list; both are in use."""
    listed = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(each for each in listed if isinstance(each, str) and each and " " not in each)
