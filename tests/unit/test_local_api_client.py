"""What the terminal client asks of the API for runs and their events."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from local.api_client import ApiClient, ApiError, RunEvent

Answer = Callable[[httpx.Request], httpx.Response]
EVENT: dict[str, Any] = {"n": 1, "type": "turn.started", "at": "2030-01-01T12:00:00.000+00:00", "data": {"turn": 1}}


def a_client(answer: Answer, key: str = "") -> ApiClient:
    client = ApiClient("https://api.example.com/v1", key)
    headers = client._http.headers
    client._http = httpx.Client(
        base_url="https://api.example.com/v1", headers=headers, transport=httpx.MockTransport(answer)
    )
    return client


def sse(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_events_are_read_up_to_the_last_one() -> None:
    content = sse("retry: 1000", "", "id: 1", "event: turn.started", f"data: {json.dumps(EVENT)}", "")
    client = a_client(lambda request: httpx.Response(200, content=content))
    assert list(client.run_events("run_1", quiet_s=1)) == [RunEvent(**EVENT)]


def test_events_so_far_are_all_when_a_run_goes_on_and_none_comes() -> None:
    class Quiet(httpx.SyncByteStream):
        """A stream on which nothing comes any more."""

        def __iter__(self) -> Iterator[bytes]:
            yield sse(f"data: {json.dumps(EVENT)}", "")
            raise httpx.ReadTimeout("quiet")

    client = a_client(lambda request: httpx.Response(200, stream=Quiet()))
    assert list(client.run_events("run_1", quiet_s=1)) == [RunEvent(**EVENT)]


def test_there_are_no_events_when_the_api_says_that_none_will_follow() -> None:
    assert list(a_client(lambda request: httpx.Response(204)).run_events("run_1", quiet_s=1)) == []


def test_events_that_have_expired_are_an_error_with_its_code() -> None:
    gone = {"error": {"message": "They are kept no longer.", "code": "events_expired", "param": None}}
    with pytest.raises(ApiError) as refused:
        list(a_client(lambda request: httpx.Response(410, json=gone)).run_events("run_1", quiet_s=1))
    assert refused.value.code == "events_expired"


def test_connection_that_breaks_is_an_error_that_says_so() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(ApiError, match="broke off"):
        list(a_client(broken).run_events("run_1", quiet_s=1))


def paged(asked: list[dict[str, str]]) -> Answer:
    """Three runs, of which a page has two."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        first = "after" not in request.url.params
        runs: list[dict[str, Any]] = [{"run_id": "run_3"}, {"run_id": "run_2"}] if first else [{"run_id": "run_1"}]
        return httpx.Response(200, json={"data": runs, "has_more": first, "next": "run_2" if first else None})

    return answer


def test_pages_of_runs_are_read_until_there_are_no_more() -> None:
    asked: list[dict[str, str]] = []
    runs = a_client(paged(asked)).list_runs(status="failed", limit=50)
    assert [run["run_id"] for run in runs] == ["run_3", "run_2", "run_1"]
    assert asked == [{"status": "failed", "limit": "50"}, {"status": "failed", "limit": "50", "after": "run_2"}]


def test_no_page_is_read_when_there_are_runs_enough() -> None:
    asked: list[dict[str, str]] = []
    assert len(a_client(paged(asked)).list_runs(limit=1)) == len(asked) == 1


def test_pages_of_questions_are_read_until_there_are_no_more() -> None:
    asked: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        left = {"": (["i1", "i2"], "i2"), "i2": ([], "i3"), "i3": (["i4"], None)}
        found, following = left[request.url.params.get("after", "")]
        data = [{"interaction_id": each} for each in found]
        return httpx.Response(200, json={"data": data, "has_more": following is not None, "next": following})

    assert [each["interaction_id"] for each in a_client(answer).list_pending()] == ["i1", "i2", "i4"]
    assert asked == [{"status": "pending", **more} for more in ({}, {"after": "i2"}, {"after": "i3"})]


def test_session_is_asked_for_by_its_name_whatever_that_holds() -> None:
    asked: list[dict[str, str]] = []
    a_client(paged(asked)).list_runs(session_id="a&b=c ü", limit=1)
    assert asked[0]["session_id"] == "a&b=c ü"


@pytest.mark.parametrize(("key", "sent"), [("", None), ("k", "Bearer k")])
def test_key_is_sent_where_there_is_one(key: str, sent: str | None) -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"run_id": "run_1"})

    a_client(answer, key).read_run("run_1")
    assert seen == [sent]
