"""What a soak as a whole must keep to: how much may go wrong in it honestly, and how much must."""

from collections.abc import Iterator, Mapping, Sequence

from stepagent.runs import RunStatus
from tests.soak.verdict import Verdict

# Of 660 runs that were measured, one in 26 failed with an honest reason, and of no 60 more than one in 15.
MOST_FAILED = 0.15
_FEW = 3  # may fail in a soak that is too small for a share

_DISTURBANCES = ("process killed", "call invoked again", "turn invoked again")

# From how many runs on a fault is certain to come at the rates of `Rates`: eight times or more in the mean.
CERTAIN_FROM: Mapping[str, int] = {
    "process killed": 40,
    "clock an hour ahead": 40,
    "clock an hour behind": 40,
    "request repeated": 40,
    "model 429": 100,
    "model 500": 100,
    "model cuts its stream": 100,
    "model is slow": 100,
    "answer repeated": 100,
    "message repeated": 150,
    "turn invoked again": 150,
    "call invoked again": 150,
    "call of an agent invoked again": 200,
    "model stalls": 300,
    "end told again": 400,
}


def never_came(faults: Mapping[str, int], runs: int) -> list[str]:
    """The kinds of faults that a soak of so many runs should have met, and did not: it has proved nothing of them."""
    return [kind for kind, certain in CERTAIN_FROM.items() if runs >= certain and not faults.get(kind)]


def beyond(verdicts: Sequence[Verdict], faults: Mapping[str, int]) -> Iterator[str]:
    """What has an honest reason each time, and happened more often than all that went wrong can be the reason of."""
    failed = sum(verdict.status == RunStatus.FAILED for verdict in verdicts)
    most = max(_FEW, int(MOST_FAILED * len(verdicts)))
    if failed > most:
        yield f"{failed} runs of {len(verdicts)} failed, and at most {most} may"
    # One kill ends one process, and with it one try at a turn or one call.
    disturbances = sum(faults.get(kind, 0) for kind in _DISTURBANCES)
    needed = sum(verdict.disturbances for verdict in verdicts)
    if needed > disturbances:
        yield f"to explain what failed or is unknown takes {needed} kills or repeated invocations, not {disturbances}"
