"""Results sent to servers of others, signed as Standard Webhooks has it (https://www.standardwebhooks.com)."""

import hmac
from base64 import b64decode, b64encode
from datetime import datetime
from hashlib import sha256

from aws_lambda_powertools.utilities import parameters

from stepagent.clock import now
from stepagent.errors import ConfigurationError
from stepagent.settings import settings
from stepagent.web.client import Bounds, send
from stepagent.web.network import INTERNET, Network
from stepagent.web.permission import Permission
from stepagent.web.request import WebRequest
from stepagent.web.urls import Url

_BOUNDS = Bounds(seconds=15, response_bytes=0, redirects=0)  # of what it answers, the status alone counts
_SECRET_SECONDS = 300
_PREFIX = "whsec_"


def post_webhook(url: Url, permission: Permission, event_id: str, body: bytes, network: Network = INTERNET) -> int:
    """Sends a result once; returns the status of the answer.

    Raises:
        WebError: there is none.
        ConfigurationError: the secret cannot be read.
    """
    headers = {"content-type": "application/json", **signature_headers(event_id, body, _secret(), now())}
    return send(WebRequest("POST", url, headers, body), permission, _BOUNDS, network).status


def signature_headers(event_id: str, body: bytes, secret: bytes, at: datetime) -> dict[str, str]:
    """The headers by which a receiver knows that we sent these very bytes, and about when."""
    timestamp = f"{at.timestamp():.0f}"
    digest = hmac.new(secret, f"{event_id}.{timestamp}.".encode() + body, sha256).digest()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }


def _secret() -> bytes:
    try:
        text = str(parameters.get_secret(settings().webhook_secret_arn, max_age=_SECRET_SECONDS)).strip()
    except parameters.GetParameterError as error:
        raise ConfigurationError("The secret that signs webhooks cannot be read.") from error
    try:
        return b64decode(text.removeprefix(_PREFIX), validate=True)
    except ValueError:  # whose words may show some of it
        raise ConfigurationError("The secret that signs webhooks is not base64.") from None
