"""The HTTP API as the terminal client sees it: named events of one run, and questions to people."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import httpx

AGENT = "assistant"
# The server sends a sign of life every 15 seconds, however long a model or a tool takes.
_MOST_LISTED = 100  # runs on a page
_TIMEOUT = httpx.Timeout(60, connect=5)


class ApiError(RuntimeError):
    """The API refused, or broke off; `code` and `param` are the API's own words, where it gave some."""

    def __init__(self, message: str, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.code, self.param = code, param


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class RunEvent(NamedTuple):
    """An event of a run's journal; `at` is ISO 8601."""

    n: int
    type: str
    at: str
    data: dict[str, Any]


class Said(NamedTuple):
    """A message in a session. Whoever says it again with the same key joins what it began."""

    text: str
    session_id: str
    key: str
    agent: str = AGENT
    strategy: str = ""  # "" for the agent's own


class ApiClient:
    """Who talks to the API, as a context manager: to the local one, or with a key to that of a deployed stack.

    Every method raises `ApiError` where the API refuses, or cannot be reached.
    """

    def __init__(self, base_url: str, key: str = "") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # A proxy of the user's never sees loopback traffic, which alone has no key.
        self._http = httpx.Client(base_url=base_url, timeout=_TIMEOUT, trust_env=bool(key), headers=headers)

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
            **({"strategy": said.strategy} if said.strategy else {}),
        }
        with self._request("POST", "/chat/completions", body, {"Idempotency-Key": said.key}) as response:
            yield from _events(response.iter_lines())

    def list_pending(self) -> list[dict[str, Any]]:
        """All questions that wait for this caller, the oldest first."""
        asked = {"status": "pending"}
        found: list[dict[str, Any]] = []
        while True:
            page = self._fetch("GET", f"/interactions?{urlencode(asked)}")
            found += page["data"]
            if not page["has_more"]:
                return found
            asked["after"] = page["next"]

    def read_interaction(self, interaction_id: str) -> dict[str, Any]:
        """A question as it stands."""
        return self._fetch("GET", f"/interactions/{interaction_id}")

    def answer(self, interaction_id: str, answer: str | dict[str, Any]) -> None:
        """Answer a question; its run goes on when none other is open."""
        self._fetch("POST", f"/interactions/{interaction_id}", {"answer": answer})

    def read_run(self, run_id: str) -> dict[str, Any]:
        """A run as it stands."""
        return self._fetch("GET", f"/runs/{run_id}")

    def list_runs(self, status: str = "", session_id: str = "", limit: int = 20) -> list[dict[str, Any]]:
        """The caller's runs, the last one first; pages are read until there are `limit`, or no more."""
        asked = {"status": status, "session_id": session_id, "limit": str(min(limit, _MOST_LISTED)), "after": ""}
        found: list[dict[str, Any]] = []
        while len(found) < limit:
            page = self._fetch("GET", f"/runs?{urlencode({name: value for name, value in asked.items() if value})}")
            found += page["data"]
            if not page["has_more"]:
                break
            asked["after"] = page["next"]
        return found[:limit]

    def run_events(self, run_id: str, *, quiet_s: float) -> Iterator[RunEvent]:
        """The events of a run's journal so far: up to its last one, or until none has come for `quiet_s`."""
        waiting = httpx.Timeout(5, read=quiet_s)
        try:
            with self._http.stream("GET", f"/runs/{run_id}/events", timeout=waiting) as response:
                _check(response)
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        yield RunEvent(**json.loads(line[6:]))
        except httpx.ReadTimeout:  # the run works or waits
            return
        except httpx.HTTPError as error:
            raise _unreachable(error) from error

    def cancel(self, run_id: str) -> dict[str, Any]:
        """End a run, with everything that it began; returns it as it stands then."""
        return self._fetch("POST", f"/runs/{run_id}/cancel")

    def begin_batch(self, body: dict[str, Any]) -> dict[str, Any]:
        """Begin a batch, or have the one of this id go on; returns it as it stands then."""
        return self._fetch("POST", "/batches", body)

    def read_batch(self, batch_id: str) -> dict[str, Any]:
        """A batch as it stands."""
        return self._fetch("GET", f"/batches/{batch_id}")

    def cancel_batch(self, batch_id: str) -> dict[str, Any]:
        """End a batch and its runs; returns it as it stands then."""
        return self._fetch("POST", f"/batches/{batch_id}/cancel")

    def batch_results(self, batch_id: str, kind: str) -> Iterator[dict[str, Any]]:
        """What came of the inputs of a batch that has ended; `kind` is `succeeded` or `failed`."""
        after: int | None = 0
        while after is not None:
            page = self._fetch("GET", f"/batches/{batch_id}/results?kind={kind}&after={after}&limit=500")
            yield from page["data"]
            after = page["next"]

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
    why = (
        f"The connection to the API broke off ({type(error).__name__}). `make status` tells whether the local one runs."
    )
    return ApiError(why, "unreachable")
