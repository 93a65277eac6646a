"""A short soak: some runs at once while everything around them fails; `make soak` is the long one."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.local_loop import forget
from tests.processes import linux_only
from tests.soak.faults import Faults, Rates
from tests.soak.report import lines
from tests.soak.soaking import Plan, Report, soak

RUNS, AT_ONCE, PATIENCE_S = 40, 20, 600
OFTEN = Rates(model=0.2, kills_per_s=0.03)
# Beside the kinds that are certain in any soak of this size: those of the model are the seed's, and come often enough.
MET = ("model 429", "model 500", "model cuts its stream", "model is slow", "message repeated", "answer repeated")

pytestmark = linux_only


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    with patch.dict(os.environ):
        yield soak(tmp_path_factory.mktemp("soak"), Plan(RUNS, AT_ONCE, PATIENCE_S), Faults(1, OFTEN))
    forget()


def test_no_run_is_lost(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("", *lines(report), sep="\n  ")
    assert report.lost == []


def test_no_effect_happens_twice(report: Report) -> None:
    assert report.duplicated == []


def test_no_result_is_wrong(report: Report) -> None:
    assert report.all_wrong == []


def test_every_kind_of_fault_was_met(report: Report) -> None:
    assert report.never_came == []
    assert [kind for kind in MET if not report.faults.get(kind)] == []
    assert [kind for kind in report.faults if kind.endswith("invoked again")]  # which one is chance
