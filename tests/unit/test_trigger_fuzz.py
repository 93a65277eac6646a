"""Whatever stands in a message: it becomes jobs, or is refused as the sender's fault, and is never evaluated."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepagent.errors import RequestError
from stepagent.triggers import jobs
from stepagent.triggers.events import Event, events_in
from stepagent.triggers.jobs import job_of, read_message
from stepagent.triggers.rules import Rule

NAMES = [
    "id",
    "source",
    "detail-type",
    "detail",
    "Records",
    "eventSource",
    "eventName",
    "s3",
    "bucket",
    "object",
    "key",
]
TEXTS = [
    "aws:s3",
    "aws.s3",
    "shop",
    "ObjectCreated:Put",
    "Object Created",
    "s3:TestEvent",
    "{% $eval(detail) %}",
    "%ZZ+",
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(TEXTS) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)
EVENTS = st.fixed_dictionaries(
    {"id": VALUES, "source": VALUES, "detail-type": VALUES, "detail": VALUES}
) | st.fixed_dictionaries({"id": st.just("e"), "source": st.just("shop"), "detail-type": st.text(), "detail": VALUES})
NOTIFICATIONS = st.fixed_dictionaries(
    {
        "Records": st.lists(
            st.fixed_dictionaries(
                {"eventSource": st.just("aws:s3"), "eventName": st.just("ObjectCreated:Put"), "s3": VALUES},
                optional={"responseElements": VALUES},
            ),
            min_size=1,
            max_size=2,
        )
    }
)
RULE = Rule(
    name="r",
    match={
        "source": [{"anything-but": "stepagent"}],
        "detail": {"id": [{"anything-but": "nothing"}, {"exists": False}]},
    },
    agent="helper",
    input="{% detail.object %} {% $string(detail) %}",
    session="{% $substring($string(detail.object), 0, 20) %}",
    files={"event.json": "{% $ %}"},
)


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines may be slow


@pytest.fixture(autouse=True, scope="module")
def one_rule() -> Any:
    def load_rules(path: Path) -> tuple[Rule, ...]:
        return (RULE,)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "load_rules", load_rules)
        yield


@unhurried
@given(EVENTS | NOTIFICATIONS | VALUES)
def test_message_becomes_jobs_or_is_refused_whatever_it_holds(content: Any) -> None:
    with suppress(RequestError):
        for asked in read_message(json.dumps(content).encode()):
            if isinstance(asked, Event):
                job = job_of(asked)
                assert (job.agent, "\n" in job.input) == ("helper", False)


@unhurried
@given(st.binary(max_size=50))
def test_message_is_refused_or_read_whatever_its_bytes_are(body: bytes) -> None:
    with suppress(RequestError):
        read_message(body)


@unhurried
@given(EVENTS | NOTIFICATIONS)
def test_event_has_the_same_key_when_it_comes_again(content: Any) -> None:
    with suppress(RequestError):
        again = json.loads(json.dumps(content))
        assert [event.key for event in events_in(content) or []] == [event.key for event in events_in(again) or []]
