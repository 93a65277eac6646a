"""A soak passes only if what must go wrong in it does, and what may does not too often."""

import sys
from collections.abc import Sequence
from typing import get_args
from unittest.mock import patch

import pytest

from tests.soak import __main__ as command
from tests.soak.bounds import CERTAIN_FROM, never_came
from tests.soak.faults import ModelFault
from tests.soak.report import lines
from tests.soak.soaking import Plan, Report
from tests.soak.verdict import Verdict

ALL = dict.fromkeys(CERTAIN_FROM, 100)
MANY = max(CERTAIN_FROM.values())
COMPLETED = Verdict("completed")
HONEST = Verdict("failed", "model_reply_unusable: it broke off")


def a_report(verdicts: Sequence[Verdict], faults: dict[str, int] | None = None) -> Report:
    return Report(Plan(len(verdicts), 10, 60), 1, 1, ALL if faults is None else faults, verdicts, (), ())


def test_soak_passes_when_all_faults_came_and_its_runs_ended_as_they_should() -> None:
    assert a_report([COMPLETED] * MANY).passed


def test_soak_in_which_every_run_failed_does_not_pass() -> None:
    assert not a_report([HONEST] * MANY).passed


@pytest.mark.parametrize(("runs", "failed", "passes"), [(40, 6, True), (40, 7, False), (10, 3, True), (10, 4, False)])
def test_runs_may_fail_up_to_a_share_of_all_or_a_few(runs: int, failed: int, passes: bool) -> None:
    assert a_report([HONEST] * failed + [COMPLETED] * (runs - failed)).passed is passes


@pytest.mark.parametrize(("kills", "passes"), [(4, True), (3, False)])
def test_no_more_may_be_unknown_than_was_killed_or_invoked_again(kills: int, passes: bool) -> None:
    faults = ALL | {"process killed": kills, "call invoked again": 3, "turn invoked again": 3}
    unknown = Verdict("completed", unknown=2, disturbances=2)
    report = a_report([unknown] * 5 + [COMPLETED] * 20, faults)
    assert (report.passed, bool(report.all_wrong)) == (passes, not passes)


@pytest.mark.parametrize("kind", CERTAIN_FROM)
def test_soak_does_not_pass_and_says_so_when_a_kind_of_fault_never_came(kind: str) -> None:
    report = a_report([COMPLETED] * MANY, ALL | {kind: 0})
    assert (report.passed, report.never_came) == (False, [kind])
    assert "kinds of faults that never came: 1" in lines(report)


def test_small_soak_need_not_meet_what_its_rates_do_not_make_certain() -> None:
    assert never_came({}, 1) == []
    assert set(never_came({}, 40)) < set(never_came({}, 100)) < set(never_came({}, MANY)) == set(CERTAIN_FROM)


def test_each_fault_of_the_model_must_come_by_itself() -> None:
    assert set(get_args(ModelFault)) <= set(CERTAIN_FROM)


def test_command_says_in_one_sentence_that_it_needs_linux() -> None:
    with patch.object(sys, "platform", "darwin"), patch.object(sys, "argv", ["soak"]), pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == "A soak needs Linux: elsewhere it finds no processes to kill."
