"""One request to a provider, and the provider's refusals in our words."""

import math
from functools import cache
from typing import Any

import httpx2
import openai
from aws_lambda_powertools.utilities import parameters
from openai import OpenAI

from stepagent.errors import (
    ConfigurationError,
    ModelBusy,
    ModelError,
    ModelKeyRefused,
    ModelReplyUnusable,
    ModelRequestRejected,
)
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Listener, Reply
from stepagent.llm.stream import Assembly

_KEY_SECONDS = 300  # a rotated key is noticed after this time
_BUSY = frozenset({408, 409, 425, 429, *range(500, 600)})


def ask(model: ModelSpec, fields: dict[str, Any], listener: Listener) -> Reply:
    """Sends one request and reads the streamed reply to its end.

    Raises:
        ModelBusy: nothing was shown yet and waiting helps: busy, unreachable, or broken off.
        ModelError: any other reason, as its class says.
    """
    assembly = Assembly(listener)
    request = {"model": model.provider_model, "stream": True, **fields}
    if model.stream_usage:
        request["stream_options"] = {"include_usage": True}
    try:
        with _client(model, _key(model)).chat.completions.create(**request) as stream:
            return assembly.read(stream)
    except ModelReplyUnusable as error:
        raise error if assembly.visible else ModelBusy(error.message) from error
    except openai.OpenAIError as error:
        raise _translate(error, model, visible=assembly.visible) from error
    except httpx2.HTTPError as error:
        raise _broken(f"The connection to the model broke off ({type(error).__name__}).", assembly.visible) from error
    except ValueError as error:  # a body that is no JSON
        raise ModelReplyUnusable(f"The server of model {model.name!r} did not answer in JSON.") from error


@cache
def _client(model: ModelSpec, key: str) -> OpenAI:
    # The state machine waits and tries again, so the client must not: two layers would multiply.
    timeout = httpx2.Timeout(
        model.idle_timeout_s, connect=5, read=max(model.idle_timeout_s, model.first_byte_timeout_s)
    )
    return OpenAI(base_url=model.base_url, api_key=key, max_retries=0, timeout=timeout)


def _key(model: ModelSpec) -> str:
    if not model.api_key_secret:
        return "none"  # the client insists on a key; a server without keys does not look at it
    try:
        key = str(parameters.get_secret(model.api_key_secret, max_age=_KEY_SECONDS)).strip()
    except parameters.GetParameterError as error:
        raise ConfigurationError(f"The secret with the key of model {model.name!r} cannot be read.") from error
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"The secret with the key of model {model.name!r} holds no key: one line of ASCII.")
    return key


def _translate(error: openai.OpenAIError, model: ModelSpec, *, visible: bool) -> ModelError:
    match error:
        case openai.APITimeoutError():
            return _broken(f"The server of model {model.name!r} did not answer in time.", visible)
        case openai.APIConnectionError() if isinstance(error.__cause__, httpx2.ConnectError):
            return _broken(f"The server of model {model.name!r} cannot be reached.", visible)
        case openai.APIConnectionError():
            return _broken(f"The connection to the model's server at {model.base_url} broke off.", visible)
        case openai.APIStatusError():
            return _status(error, model)
        case openai.APIResponseValidationError():
            return ModelReplyUnusable(f"The server of model {model.name!r} answered in a form that is not known.")
        case _:
            return _broken(f"The model's stream broke with an error: {str(error)[:300]}", visible)


def _broken(message: str, visible: bool) -> ModelError:
    return ModelReplyUnusable(message) if visible else ModelBusy(message)


def _status(error: openai.APIStatusError, model: ModelSpec) -> ModelError:
    words = f"status {error.status_code}: {_message(error)}"
    if error.status_code in (401, 403):
        return ModelKeyRefused(f"The model's provider refuses the key of model {model.name!r} ({words})")
    if error.status_code in _BUSY:
        return ModelBusy(f"The model's provider is busy or down ({words})", _retry_after(error))
    return ModelRequestRejected(f"The model's provider rejects the request ({words})")


def _message(error: openai.APIStatusError) -> str:
    """The provider's own words and its request id, without the page of HTML that proxies send."""
    words = error.body.get("message") if isinstance(error.body, dict) else error.body
    if not isinstance(words, str) or not words or "<" in words[:20]:
        words = type(error).__name__
    request = f", request {error.request_id}" if error.request_id else ""
    return f"{words[:300]}{request}"


def _retry_after(error: openai.APIStatusError) -> float | None:
    try:
        wait_s = float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, wait_s) if math.isfinite(wait_s) else None
