"""For how long a message of the queue is hidden, and when it is put aside."""

from datetime import timedelta

import pytest
from samtranslator.yaml_helper import yaml_parse

from stepagent.triggers.failures import MAX_WAIT, TRIES, Failure, hidden_s
from tests.functions import ROOT

BUSY = Failure("session_busy", "It is busy.", waits=True)
BROKEN = Failure("invalid_request", "It is not right.", waits=False)


@pytest.mark.parametrize(("receives", "expected"), [(1, 5), (2, 5), (3, None), (4, None)])
def test_broken_message_comes_three_times(receives: int, expected: int | None) -> None:
    assert hidden_s(BROKEN, receives, timedelta(hours=1)) == expected
    assert TRIES == 3


@pytest.mark.parametrize(
    ("waited_s", "expected"), [(0, 2), (8, 2), (40, 10), (3_600, 900), (86_399, 900), (86_400, None)]
)
def test_waiting_message_comes_again_when_it_has_waited_a_quarter_longer(waited_s: int, expected: int | None) -> None:
    assert hidden_s(BUSY, 1, timedelta(seconds=waited_s)) == expected


def test_message_that_waits_for_a_day_comes_less_often_than_the_queue_lets_it() -> None:
    resources = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
    waited, receives = timedelta(), 1
    while (again_s := hidden_s(BUSY, receives, waited)) is not None:
        waited, receives = waited + timedelta(seconds=again_s), receives + 1
    for name in ("IngestQueue", "IngestFifoQueue"):
        assert receives < resources[name]["Properties"]["RedrivePolicy"]["maxReceiveCount"]
        assert MAX_WAIT.total_seconds() < resources[name]["Properties"]["MessageRetentionPeriod"]
