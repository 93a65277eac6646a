"""Where a request may have its result sent: what the deployment allows, and what is refused by name."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stepagent.api import beginning
from stepagent.api.idempotency import job_key
from stepagent.api.requests import ChatRequest, read_chat_request, read_job_request
from stepagent.api.runs import RunsQuery, show_runs
from stepagent.api.shapes import run_view
from stepagent.clock import now
from stepagent.errors import ConfigurationError, InvalidRequest
from stepagent.replies.places import check_reply_to
from stepagent.replies.reply_to import ReplyTo
from tests.builders import OWNER, a_run
from tests.recorded import begin
from tests.reply_places import ACCOUNT, ELSEWHERE, HOOK, OWN, QUEUE, Places, install
from tests.tables import tables_in_memory


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]) -> Places:
    return install(monkeypatch, set_environment)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"queue_url": QUEUE, "webhook": HOOK},
        {"queue_url": ""},
        {"queue": QUEUE},
        {"queue_url": None},
        {"webhook": 1},
    ],
)
def test_reply_to_is_refused_when_it_names_not_exactly_one_place(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ReplyTo.model_validate(given)


@pytest.mark.parametrize(
    "given",
    [
        {"queue_url": QUEUE},
        {"queue_url": ELSEWHERE},
        {"s3_prefix": "replies/orders"},
        {"s3_prefix": "replies/orders/"},
        {"s3_prefix": "replies/day=1"},
        {"s3_prefix": "s3://ours/replies/orders"},
        {"s3_prefix": "s3://theirs/agents/orders"},
        {"webhook": HOOK},
    ],
)
def test_place_is_taken_when_the_deployment_allows_it(given: dict[str, str]) -> None:
    check_reply_to(ReplyTo.model_validate(given))


@pytest.mark.parametrize(
    "given",
    [
        {"queue_url": f"https://sqs.eu-central-1.amazonaws.com/{ACCOUNT}/others"},
        {"queue_url": "https://sqs.eu-central-1.amazonaws.com/999999999999/results"},
        {"queue_url": f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/results"},
        {"queue_url": f"https://sqs.eu-central-1.amazonaws.com.evil.example/{ACCOUNT}/results"},
        {"queue_url": f"{QUEUE}?x=1"},
        {"queue_url": OWN},
        {"s3_prefix": "payloads/orders"},
        {"s3_prefix": "repliesx/orders"},
        {"s3_prefix": "/replies/orders"},
        {"s3_prefix": "replies//orders"},
        {"s3_prefix": "replies/../payloads"},
        {"s3_prefix": "s3://theirs/agents/./x"},
        {"s3_prefix": "replies/ orders"},
        {"s3_prefix": "s3://ours/results/orders"},
        {"s3_prefix": "s3://theirs/agentsx/orders"},
        {"s3_prefix": "s3://others/agents/orders"},
        {"s3_prefix": "s3://"},
        {"s3_prefix": "replies/" + "x" * 1000},
        {"webhook": "http://api.example.com/hook"},
        {"webhook": "https://other.example.com/hook"},
        {"webhook": "https://api.example.com.evil.example/hook"},
        {"webhook": "https://user:pass@api.example.com/hook"},
        {"webhook": "https://api.example.com:8443/hook"},
        {"webhook": "https://127.0.0.1/hook"},
        {"webhook": "https://169.254.169.254/latest/meta-data"},
        {"webhook": "file:///etc/passwd"},
    ],
)
def test_place_is_refused_by_name_when_the_deployment_does_not_allow_it(given: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_reply_to(ReplyTo.model_validate(given))
    [field] = given
    assert (refused.value.param, refused.value.error_code) == (f"reply_to.{field}", "reply_to_not_allowed")


def test_address_that_is_allowed_is_refused_when_it_is_private(set_environment: Callable[..., None]) -> None:
    set_environment(WEBHOOK_ALLOWED_HOSTS="https://127.0.0.1:8443")
    with pytest.raises(InvalidRequest, match="not on the public internet"):
        check_reply_to(ReplyTo(webhook="https://127.0.0.1:8443/hook"))


@pytest.mark.parametrize("given", [{"queue_url": QUEUE}, {"s3_prefix": "s3://theirs/agents/x"}, {"webhook": HOOK}])
def test_nothing_but_the_stacks_own_bucket_is_allowed_when_nothing_is_listed(
    given: dict[str, str], set_environment: Callable[..., None]
) -> None:
    set_environment(REPLY_QUEUE_ARNS="", REPLY_OBJECT_ARNS="", WEBHOOK_ALLOWED_HOSTS="")
    with pytest.raises(InvalidRequest):
        check_reply_to(ReplyTo.model_validate(given))


def test_list_of_hosts_that_is_none_is_the_deployments_fault(set_environment: Callable[..., None]) -> None:
    set_environment(WEBHOOK_ALLOWED_HOSTS="*.com")
    with pytest.raises(ConfigurationError, match="WebhookAllowedHosts"):
        check_reply_to(ReplyTo(webhook=HOOK))


def asks(**fields: Any) -> ChatRequest:
    body = {"model": "helper", "messages": [{"role": "user", "content": "Do it."}], **fields}
    return read_chat_request(json.dumps(body).encode())


def test_job_is_another_one_when_its_result_goes_elsewhere() -> None:
    jobs = [
        {"agent": "a", "input": "x", "reply_to": {"s3_prefix": f"replies/{name}"}} for name in ("one", "two", "two")
    ]
    requests = [read_job_request(json.dumps(job).encode()).as_chat() for job in jobs]
    one, two, again = (job_key(request, OWNER, "id") for request in requests)
    assert one != two == again


def test_answer_to_a_question_names_no_place() -> None:
    waiting = a_run(pending=("q",))
    with pytest.raises(InvalidRequest, match="waits for an answer"):
        beginning._continue(waiting, asks(reply_to={"s3_prefix": "replies"}), None)


def test_run_shows_its_owner_where_its_result_goes_and_lists_do_not() -> None:
    run = begin(a_run(created_at=now(), reply_to=ReplyTo(webhook=HOOK)))
    assert run_view(run)["reply_to"]["webhook"] == HOOK
    assert HOOK not in json.dumps(show_runs(RunsQuery(), OWNER), default=str)
