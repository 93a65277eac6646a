"""One request to a provider: sent, streamed, put together; refusals in our words."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx2
import openai
from aws_lambda_powertools.utilities import parameters
from openai import OpenAI

from stepagent.errors import (
    ConfigurationError,
    ModelBusy,
    ModelContextExceeded,
    ModelError,
    ModelLacksTools,
    ModelReplyUnusable,
)
from stepagent.llm.refusals import Refusal, read_refusal
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Listener, Reply, TextReader
from stepagent.llm.sse import Events
from stepagent.llm.stream import Assembly

_KEY_SECONDS = 300  # a rotated key is noticed after this time
_NO_KEY = "no-key-needed"  # the client insists on one; a server without keys does not look at it
_ASKED_AGAIN = (ModelBusy, ModelContextExceeded, ModelLacksTools)  # another request may fare better


class Witness:
    """Passes a reply on to the listener and knows whether a person has seen a part of it.

    Text is passed on unless nobody may see it before it is known to have the form that is wanted.
    """

    def __init__(self, listener: Listener, *, shows_text: bool = True) -> None:
        self._listener, self._shows_text = listener, shows_text
        self.seen = False

    def text(self, fragment: str) -> None:
        if self._shows_text:
            self.seen = self.seen or bool(fragment)
            self._listener.text(fragment)

    def reasoning(self, fragment: str) -> None:
        self._listener.reasoning(fragment)


def send(model: ModelSpec, fields: dict[str, Any], reader: TextReader, witness: Witness) -> Reply:
    """Sends one request and reads the streamed reply to its end.

    Raises:
        ModelBusy: nothing was seen yet and waiting helps: busy, unreachable, or broken off.
        ModelError: any other reason, as its class says. Its `usage` is what the provider counted all the same. Once
            something was seen it is none after which one asks again: a person would read two beginnings.
    """
    assembly, key = Assembly(reader, witness), _key(model)
    try:
        with _translated(model, key):
            _receive(model, key, fields, assembly)
    except ModelError as error:
        if not isinstance(error.__cause__, openai.APIStatusError):  # a request that was refused has cost nothing
            error.usage = model.priced(assembly.usage)
        if witness.seen and isinstance(error, _ASKED_AGAIN):
            raise ModelReplyUnusable(error.message, usage=error.usage) from error
        raise
    reply = assembly.reply()
    return reply._replace(usage=model.priced(reply.usage))


def _receive(model: ModelSpec, key: str, fields: dict[str, Any], assembly: Assembly) -> None:
    client = _client(model, key)
    request = model.request(fields)
    # All that a provider takes goes as it is, whether or not the client knows the field. The client would also walk
    # through each message, which takes longer than all else of a turn that has a long history.
    known: Any = {name: request.pop(name) for name in ("model", "stream")} | {"messages": ()}
    with client.chat.completions.with_streaming_response.create(**known, extra_body=request) as response:
        if "json" in response.headers.get("content-type", ""):  # the server does not stream
            _add(assembly, response.json(), key)
            return
        events = Events(response.iter_bytes(), model.idle_timeout_s)
        for chunk in events:
            _add(assembly, chunk, key)
        # "[DONE]" is as good an end as a finish reason, as long as there is a reply and no call of it is cut.
        if not assembly.finish_reason and not (events.done and assembly.may_be_whole()):
            raise ModelBusy("The model's stream ended before its reply was complete.")


def _add(assembly: Assembly, chunk: Any, key: str) -> None:
    if not isinstance(chunk, dict):
        raise ModelReplyUnusable("The model's server did not answer with an object.")
    if error := chunk.get("error"):
        raise read_refusal(Refusal(200, {"error": error}, secret=key))
    assembly.add(chunk)


@contextmanager
def _translated(model: ModelSpec, key: str) -> Iterator[None]:
    """Errors of the client and its connection, as ours."""
    server = (
        f"The server of model {model.name!r} ({model.provider_model})"  # its address is nothing for callers of the API
    )
    try:
        yield
    except openai.APIStatusError as error:
        raise read_refusal(Refusal(error.status_code, error.body, error.response.headers, key)) from error
    except (openai.APITimeoutError, httpx2.TimeoutException) as error:
        raise ModelBusy(f"{server} did not answer in time.") from error
    except openai.APIConnectionError as error:
        reached = not isinstance(error.__cause__, httpx2.ConnectError)
        raise ModelBusy(f"{server} {'broke the connection off' if reached else 'cannot be reached'}.") from error
    except httpx2.HTTPError as error:
        raise ModelBusy(f"{server} broke the connection off.") from error
    except httpx2.InvalidURL as error:
        raise ConfigurationError(f"The base URL of model {model.name!r} is no URL.") from error
    except (openai.OpenAIError, ValueError, RecursionError) as error:
        raise ModelReplyUnusable(f"{server} answered in a form that is not known.") from error


@cache
def _client(model: ModelSpec, key: str) -> OpenAI:
    # The state machine waits and tries again, so the client must not: two layers would multiply.
    read_s = max(model.idle_timeout_s, model.first_byte_timeout_s)
    timeout = httpx2.Timeout(read_s, connect=5)
    query = dict(model.query) or None
    return OpenAI(base_url=model.base_url, api_key=key, default_query=query, max_retries=0, timeout=timeout)


def _key(model: ModelSpec) -> str:
    if not model.api_key_secret:
        return _NO_KEY
    try:
        key = str(parameters.get_secret(model.api_key_secret, max_age=_KEY_SECONDS)).strip()
    except parameters.GetParameterError as error:
        raise ConfigurationError(f"The secret with the key of model {model.name!r} cannot be read.") from error
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"The secret with the key of model {model.name!r} holds no key: one line of ASCII.")
    return key
