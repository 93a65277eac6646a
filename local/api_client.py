"""The HTTP API as the terminal client sees it: named events of one run, and answers to questions."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx

AGENT = "assistant"
# The server sends a sign of life every 15 seconds, however long a model or a tool takes.
_TIMEOUT = httpx.Timeout(60, connect=5)


class ApiError(RuntimeError):
    """The API refused, or broke off; `code` is the API's own word, where it gave one."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class ApiClient:
    """One session with one agent."""

    def __init__(self, base_url: str, session_id: str) -> None:
        self.session_id = session_id
        # A proxy of the user's never sees loopback traffic.
        self._http = httpx.Client(base_url=base_url, timeout=_TIMEOUT, trust_env=False)

    def say(self, text: str) -> Iterator[Event]:
        """Send a message, or the answer to the session's open question, and yield what happens until the run rests.

        Raises:
            ApiError: the API refused, or the stream broke off before its end.
        """
        body = {
            "model": AGENT,
            "messages": [{"role": "user", "content": text}],
            "session_id": self.session_id,
            "stream": True,
            "stream_options": {"include_usage": True},
            "detail": True,
        }
        try:
            with self._http.stream("POST", "/chat/completions", json=body) as response:
                _check(response)
                yield from _events(response.iter_lines())
        except httpx.HTTPError as error:
            raise _unreachable(error) from error

    def answer(self, interaction_id: str, text: str) -> None:
        """Answer one of several open questions; the run goes on when the last has its answer.

        Raises:
            ApiError: the API did not take the answer.
        """
        try:
            with self._http.stream("POST", f"/interactions/{interaction_id}", json={"answer": text}) as response:
                _check(response)
        except httpx.HTTPError as error:
            raise _unreachable(error) from error


def _events(lines: Iterator[str]) -> Iterator[Event]:
    name = "answer"
    for line in lines:
        if line.startswith("event: "):
            name = line[7:]
        elif line == "data: [DONE]":
            return
        elif line.startswith("data: "):
            yield Event(name, json.loads(line[6:]))
            name = "answer"
    raise ApiError("The stream broke off before the run's end.")


def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    try:
        error = response.json()["error"]
        message, code = str(error["message"]), str(error["code"])
    except (ValueError, KeyError, TypeError):
        message, code = f"The API answered with status {response.status_code}.", ""
    raise ApiError(message, code)


def _unreachable(error: httpx.HTTPError) -> ApiError:
    return ApiError(f"The connection to the local API broke off ({type(error).__name__}).", "unreachable")
