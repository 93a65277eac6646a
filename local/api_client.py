"""The HTTP API as the terminal client sees it: named events of one run, and questions to people."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import httpx

AGENT = "assistant"
# The server sends a sign of life every 15 seconds, however long a model or a tool takes.
_TIMEOUT = httpx.Timeout(60, connect=5)


class ApiError(RuntimeError):
    """The API refused, or broke off; `code` and `param` are the API's own words, where it gave some."""

    def __init__(self, message: str, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.code, self.param = code, param


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class Said(NamedTuple):
    """A message in a session. Whoever says it again with the same key joins what it began."""

    text: str
    session_id: str
    key: str
    agent: str = AGENT


class ApiClient:
    """Who talks to the local API, as a context manager.

    Every method raises `ApiError` where the API refuses, or cannot be reached.
    """

    def __init__(self, base_url: str) -> None:
        # A proxy of the user's never sees loopback traffic.
        self._http = httpx.Client(base_url=base_url, timeout=_TIMEOUT, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def say(self, said: Said) -> Iterator[Event]:
        """Send a message, and yield all that happens from its run's begin until that rests.

        The same message again yields the same events again, and those that came since.
        """
        body = {
            "model": said.agent,
            "messages": [{"role": "user", "content": said.text}],
            "session_id": said.session_id,
            "stream": True,
            "stream_options": {"include_usage": True},
            "detail": True,
        }
        with self._request("POST", "/chat/completions", body, {"Idempotency-Key": said.key}) as response:
            yield from _events(response.iter_lines())

    def list_pending(self) -> list[dict[str, Any]]:
        """All questions that wait for this caller, the oldest first."""
        found: list[dict[str, Any]] = self._fetch("GET", "/interactions?status=pending")["data"]
        return found

    def read_interaction(self, interaction_id: str) -> dict[str, Any]:
        """A question as it stands."""
        return self._fetch("GET", f"/interactions/{interaction_id}")

    def answer(self, interaction_id: str, answer: str | dict[str, Any]) -> None:
        """Answer a question; its run goes on when none other is open."""
        self._fetch("POST", f"/interactions/{interaction_id}", {"answer": answer})

    def read_run(self, run_id: str) -> dict[str, Any]:
        """A run as it stands."""
        return self._fetch("GET", f"/runs/{run_id}")

    def cancel(self, run_id: str) -> dict[str, Any]:
        """End a run, with everything that it began; returns it as it stands then."""
        return self._fetch("POST", f"/runs/{run_id}/cancel")

    def _fetch(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with self._request(method, path, body) as response:
            response.read()
            found: dict[str, Any] = response.json()
            return found

    @contextmanager
    def _request(
        self, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        try:
            with self._http.stream(method, path, json=body, headers=headers) as response:
                _check(response)
                yield response
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
        refused = ApiError(str(error["message"]), str(error["code"]), error.get("param") or "")
    except (ValueError, KeyError, TypeError):
        refused = ApiError(f"The API answered with status {response.status_code}.")
    raise refused


def _unreachable(error: httpx.HTTPError) -> ApiError:
    why = f"The connection to the local API broke off ({type(error).__name__}). `make status` tells whether it runs."
    return ApiError(why, "unreachable")
