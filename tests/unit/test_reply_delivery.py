"""Results of runs, sent to where their requests wanted them: what is told, what arrives, and what is put aside."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from botocore.exceptions import ClientError

from stepagent.clock import now
from stepagent.notifying import ToldOfQuestion, ToldOfRun
from stepagent.replies.delivery import DELAYS_S, NotDelivered, deliver_from_message
from stepagent.replies.reply_to import ReplyTo
from stepagent.replies.result import MAX_BYTES, as_json, facts_of, result_of
from stepagent.runs import Failure, Outcome, RunStatus, StopReason
from stepagent.store.runs import close_run
from tests.builders import NOON, OWNER, RUN_ID, a_run
from tests.recorded import begin
from tests.reply_places import DEAD, ELSEWHERE, HOOK, PAGE, QUEUE, Bucket, Places, Queues, ended, install, message, read
from tests.tables import tables_in_memory
from tests.web_server import answered, serving_securely


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]) -> Places:
    return install(monkeypatch, set_environment)


@pytest.fixture
def sqs(places: Places) -> Queues:
    return places.sqs


@pytest.fixture
def s3(places: Places) -> Bucket:
    return places.s3


# ---- what is told


def test_facts_have_nothing_that_was_said_or_noted() -> None:
    failure = Failure(code="model_busy", message="words")
    facts = facts_of(a_run(answer="words", metadata={"a": "words"}, user="words", failure=failure, ended_at=NOON))
    assert "words" not in json.dumps(facts)
    assert (facts["run_id"], facts["owner"], facts["failure_code"]) == (RUN_ID, OWNER, "model_busy")


def test_result_has_one_id_however_often_it_is_told() -> None:
    run = a_run(status=RunStatus.CANCELLED, stop_reason=StopReason.CANCELLED, ended_at=NOON)
    result = result_of(run)
    assert (result["id"], result["type"]) == (f"{RUN_ID}.cancelled", "run.cancelled")
    assert result == result_of(run)


def test_page_names_what_the_bus_is_told() -> None:
    page = PAGE.read_text("utf-8").split("## Events out")[1].split("\n## ")[0]
    names = [*get_args(ToldOfRun), *get_args(ToldOfQuestion), *facts_of(a_run()), *result_of(a_run())]
    assert [name for name in names if f"`{name}`" not in page and f'"{name}"' not in page] == []


# ---- queues


def test_result_arrives_in_the_queue_with_answer_usage_and_the_callers_notes(sqs: Queues) -> None:
    ended(ReplyTo(queue_url=QUEUE))
    deliver_from_message(message())
    [sent] = sqs.to(QUEUE)
    data = read(sent)["data"]
    assert set(sent) == {"QueueUrl", "MessageBody"}
    assert (data["answer"], data["metadata"], data["status"]) == ("It is done.", {"order": "4711"}, "completed")
    assert data["usage"]["input_tokens"] == 0


def test_results_of_a_session_stay_in_order_and_come_once_when_the_queue_is_fifo(sqs: Queues) -> None:
    run = ended(ReplyTo(queue_url=ELSEWHERE))
    deliver_from_message(message())
    [sent] = sqs.to(ELSEWHERE)
    assert (sent["MessageGroupId"], sent["MessageDeduplicationId"]) == (run.key.session, f"{RUN_ID}.completed")


def test_answer_is_an_object_when_it_is_too_long_for_a_message(sqs: Queues, s3: Bucket) -> None:
    ended(ReplyTo(queue_url=QUEUE), answer="é" * MAX_BYTES)
    deliver_from_message(message())
    [sent] = sqs.to(QUEUE)
    data, key = read(sent)["data"], f"replies/large/{RUN_ID}.json"
    assert (data["answer"], data["answer_at"]) == (None, f"s3://ours/{key}")
    assert json.loads(s3.objects["ours", key])["data"]["answer"] == "é" * MAX_BYTES
    assert len(sent["MessageBody"]) < MAX_BYTES


def test_result_has_no_character_that_a_queue_refuses_and_means_the_same() -> None:
    answer = "".join(map(chr, (*range(0x20), 0x7F, 0x85, 0xDFFF, 0xD800, 0xFFFD, 0xFFFE, 0xFFFF, 0x1FFFF)))
    body = as_json(result_of(a_run(answer=answer, ended_at=NOON)))
    assert json.loads(body)["data"]["answer"] == answer
    taken = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")  # as SendMessage has it
    assert taken.fullmatch(body.decode())


def test_result_comes_again_when_the_queue_does_not_take_it(sqs: Queues) -> None:
    ended(ReplyTo(queue_url=QUEUE))
    sqs.refusal = "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(NotDelivered, match="NonExistentQueue"):
        deliver_from_message(message())
    assert (len(sqs.hidden_s), sqs.reasons) == (1, [])


def test_result_is_put_aside_when_its_place_is_allowed_no_more(
    sqs: Queues, set_environment: Callable[..., None]
) -> None:
    ended(ReplyTo(queue_url=QUEUE))
    set_environment(REPLY_QUEUE_ARNS="")
    deliver_from_message(message())
    assert sqs.to(QUEUE) == []
    assert "ReplyQueueArns" in sqs.reasons[0]


# ---- objects


@pytest.mark.parametrize(
    ("prefix", "place"),
    [
        ("replies/orders/", ("ours", f"replies/orders/{RUN_ID}.json")),
        ("replies", ("ours", f"replies/{RUN_ID}.json")),
        ("s3://theirs/agents/x", ("theirs", f"agents/x/{RUN_ID}.json")),
    ],
)
def test_result_is_an_object_named_after_its_run(s3: Bucket, prefix: str, place: tuple[str, str]) -> None:
    ended(ReplyTo(s3_prefix=prefix))
    deliver_from_message(message())
    first = dict(s3.objects)
    deliver_from_message(message())
    assert json.loads(s3.objects[place])["data"]["answer"] == "It is done."
    assert s3.objects == first


# ---- again and again


def test_tries_go_on_for_a_day_with_growing_pauses(sqs: Queues) -> None:
    ended(ReplyTo(webhook=HOOK))
    with serving_securely(answered(b"", "500 No")) as (server, network):
        for receives in range(1, len(DELAYS_S) + 1):
            with pytest.raises(NotDelivered):
                deliver_from_message(message(receives=receives), network)
        assert sqs.reasons == []
        deliver_from_message(message(receives=len(DELAYS_S) + 1), network)
    assert len(server.requests) == len(DELAYS_S) + 1
    assert sqs.reasons == ["The server answered with status 500."]
    assert all(pause >= least for pause, least in zip(sqs.hidden_s, DELAYS_S, strict=True))
    assert 23 * 3_600 < sum(DELAYS_S) < 25 * 3_600
    assert max(sqs.hidden_s) <= 43_200  # the longest that SQS hides a message


@pytest.mark.parametrize("body", ["", "no JSON", "[]", "{}", '{"run_id": 7}', '{"run_id": "run_none_1"}'])
def test_message_is_put_aside_when_it_names_no_run(sqs: Queues, body: str) -> None:
    deliver_from_message(message(body))
    assert [sent["MessageBody"] for sent in sqs.to(DEAD)] == [body]
    assert "There is no run" in sqs.reasons[0]


def test_message_is_put_aside_when_nobody_asked_for_a_reply(sqs: Queues) -> None:
    ended(None)
    deliver_from_message(message())
    assert len(sqs.reasons) == 1


def test_message_comes_again_when_it_cannot_be_put_aside(sqs: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**request: Any) -> None:
        raise ClientError({"Error": {"Code": "Throttled", "Message": "no"}}, "SendMessage")

    monkeypatch.setattr(sqs, "send_message", refuse)
    with pytest.raises(Exception, match="Throttled"):
        deliver_from_message(message("no JSON"))


def test_failed_run_tells_its_reason(sqs: Queues) -> None:
    run = begin(a_run(created_at=now(), reply_to=ReplyTo(queue_url=QUEUE)))
    close_run(run, Outcome(RunStatus.FAILED, StopReason.FAILED, failure=Failure(code="model_busy", message="Busy.")))
    deliver_from_message(message())
    data = read(sqs.to(QUEUE)[0])["data"]
    assert (data["failure"], data["status"]) == ({"code": "model_busy", "message": "Busy."}, "failed")


def test_page_names_each_pause() -> None:
    hours = [f"{pause // 3600} h" for pause in DELAYS_S if pause >= 3600]
    pauses = ["5 s", "5 min", "30 min", *hours]
    assert DELAYS_S[:3] == (5, 5 * 60, 30 * 60)
    assert f"{', '.join(pauses[:-1])} and {pauses[-1]}" in " ".join(PAGE.read_text("utf-8").split())
