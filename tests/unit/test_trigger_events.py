"""Events in messages: which are recognised, in one form, and by what each is known."""

import json
from contextlib import nullcontext
from typing import Any

import pytest

from stepagent.errors import InvalidRequest
from stepagent.triggers.events import Event, events_in
from tests.functions import ROOT

Json = dict[str, Any]


def sample(name: str) -> list[Json]:
    """The bodies of a sample's messages."""
    event = json.loads((ROOT / "events" / "ingest" / f"{name}.json").read_text())
    return [json.loads(record["body"]) for record in event["Records"]]


def found(content: Json) -> list[Event]:
    return events_in(content) or []


def test_object_is_the_same_event_however_s3_tells_of_it() -> None:
    [by_rule], [by_notification] = found(sample("object_created")[0]), found(sample("object_created_notification")[0])
    assert by_rule.key == by_notification.key
    assert by_rule.object == by_notification.object
    for name in ("source", "detail-type", "resources"):
        assert by_rule.content[name] == by_notification.content[name]


@pytest.mark.parametrize(("number", "taken"), [(10, True), (11, False)])
def test_message_is_refused_when_it_tells_of_many_objects(number: int, taken: bool) -> None:
    content = sample("object_created_notification")[0]
    with nullcontext() if taken else pytest.raises(InvalidRequest, match="10 objects at most"):
        assert len(found({"Records": content["Records"] * number})) == number


def test_key_of_an_object_is_as_it_was_named_when_a_notification_writes_it_as_in_a_url() -> None:
    [event] = found(sample("object_created_notification")[0])
    assert (event.object["key"], event.bucket) == ("reports/Bericht März 100%+.txt", "stepagent-inboxbucket-1a2b3c")


def test_object_that_is_written_anew_is_another_event() -> None:
    first, later = sample("object_created")[0], sample("object_created")[0]
    later["detail"]["object"]["sequencer"] += "1"
    assert found(first)[0].key != found(later)[0].key


def test_object_told_of_again_under_another_id_is_the_same_event() -> None:
    first, again = sample("object_created")[0], sample("object_created")[0]
    again["id"] = "another"
    assert found(first)[0].key == found(again)[0].key


def test_event_is_known_by_its_source_and_id() -> None:
    first = sample("event_of_a_bus")[0]
    [key, other_id, other_source] = [found(e)[0].key for e in (first, first | {"id": "x"}, first | {"source": "y"})]
    assert len({key, other_id, other_source}) == 3


def test_message_holds_no_event_when_it_is_a_job() -> None:
    assert events_in({"agent": "helper", "input": "x"}) is None
    assert events_in({"Records": []}) is None
    assert events_in({"Records": [{"eventSource": "aws:sns"}]}) is None


def test_message_by_which_s3_tries_whether_it_may_send_holds_no_event() -> None:
    assert events_in({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}) == []


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"id": None}, "id"),
        ({"id": ""}, "id"),
        ({"source": 7}, "source"),
        ({"detail-type": None}, "detail-type"),
        ({"detail": []}, "detail"),
    ],
)
def test_event_is_refused_when_it_lacks_what_each_has(changes: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        events_in(sample("event_of_a_bus")[0] | changes)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"eventName": "ObjectTagging:Put"}, "event_not_supported"),
        ({}, "event_not_supported"),
        ({"eventName": "ObjectCreated:Put"}, "invalid_request"),
        ({"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": 7}}}, "invalid_request"),
    ],
)
def test_notification_is_refused_when_it_tells_of_no_object(record: Json, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        events_in({"Records": [{"eventSource": "aws:s3", **record}]})
    assert refused.value.error_code == code
