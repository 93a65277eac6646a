"""Why a run may fail, and an effect be unknown, although the product works; with any other reason something is wrong.

The model is never faulty twice in a row for one turn, so what it does alone fails no run, but for one thing: the
product never asks again once a person has seen the beginning of a reply.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

from stepagent.runs import Failure
from tests.soak.faults import ModelFault

_DEATHS_IN_A_ROW = 5  # a state is entered again four times after a process died in it
_TRIES, _LOST_TRIES = 3, 2  # at a turn: the product makes three, and the last may meet the one fault of its turn
# What a call is told: by its function, which finds that it began before; by its state, whose processes died each time;
# and by the run that should have answered it, whose failure is judged by itself.
_INTERRUPTED = "Interrupted: the call began and did not end."
_DIED = "(Runtime."
_FAILED_RUN = "The agent ended without an answer: "


class LastTurn(NamedTuple):
    """How often a run's last turn was tried, and whether a person saw text of it."""

    tries: int
    seen: bool


_ANY_TURN = LastTurn(0, seen=False)


@dataclass(frozen=True)
class Reason:
    """A failure that is honest: known by its code and by words of its message.

    `after` are faults of the model one of which must have met this very task, none where it is empty. `turn` is what
    its last turn must have come to at least. `disturbances` are kills and repeated invocations that it takes at least.
    """

    code: str
    words: str
    after: tuple[ModelFault, ...] = ()
    turn: LastTurn = _ANY_TURN
    disturbances: int = 0


REASONS: Sequence[Reason] = (
    # Text of the reply was seen, and then its stream broke.
    Reason("model_reply_unusable", "broke the connection off", ("model cuts its stream",), LastTurn(1, seen=True)),
    Reason("model_reply_unusable", "stream brought no data for", ("model stalls",), LastTurn(1, seen=True)),
    # A process that dies while it asks takes one of three tries, and so does whoever takes its turn over.
    Reason("model_busy", "", get_args(ModelFault), LastTurn(_TRIES, seen=False), _LOST_TRIES),
    # A state whose processes died each time that it was entered.
    Reason("internal_error", _DIED, disturbances=_DEATHS_IN_A_ROW),
)


def reason_of(failure: Failure | None, met: Collection[str], turn: LastTurn) -> Reason | None:
    """The honest reason of a failure; None where there is none.

    Args:
        failure: of a run that failed.
        met: the faults of the model that this run's task met.
        turn: what the run's last turn came to.
    """
    if failure is None:
        return None
    fitting = (each for each in REASONS if each.code == failure.code and each.words in failure.message)
    met_one = (each for each in fitting if not each.after or set(each.after) & set(met))
    return next((each for each in met_one if turn.tries >= each.turn.tries and turn.seen >= each.turn.seen), None)


def is_interrupted(told: str) -> bool:
    """Whether a call's result says that its process died, or that it was invoked while it ran."""
    return _INTERRUPTED in told or is_dead(told)


def is_dead(told: str) -> bool:
    """Whether a call's result says that a process died each time that its state was entered."""
    return _DIED in told


def is_of_failed_run(told: str) -> bool:
    """Whether a call's result says that the run failed which should have answered it."""
    return told.startswith(_FAILED_RUN)
