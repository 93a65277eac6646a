"""What goes wrong, how often, and a count of what did. The same seed gives the same model and the same requests."""

import random
import threading
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from tests.scripted_replies import Fault, Reply

ModelFault = Literal["model 429", "model 500", "model cuts its stream", "model stalls", "model is slow"]


@dataclass(frozen=True)
class Rates:
    """How often something goes wrong: a share of what is sent, or times a second."""

    model: float = 0.15  # of the requests to the model
    repeated: float = 0.4  # of what is sent to the product from outside
    kills_per_s: float = 0.02  # of each process of a function: one lives for 50 seconds
    invocations_per_s: float = 1.0  # functions invoked with what they were invoked with before


_MODEL_FAULTS: dict[ModelFault, int] = {
    "model 429": 3,
    "model 500": 3,
    "model cuts its stream": 3,
    "model stalls": 1,
    "model is slow": 3,
}
# In a row, of one turn: the product asks three times, and a process that is killed while it asks takes one try, too.
MOST_IN_A_ROW = 1


class Faults:
    """Decides by the seed what goes wrong, and counts. For any number of threads."""

    def __init__(self, seed: int, rates: Rates) -> None:
        self.seed, self.rates = seed, rates
        self._counts: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._met: dict[int, set[ModelFault]] = {}
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def count(self, kind: str, times: int = 1) -> None:
        with self._lock:
            self._counts[kind] += times

    def met(self, task: int) -> frozenset[ModelFault]:
        """The faults of the model that a task has met, by its number."""
        with self._lock:
            return frozenset(self._met.get(task, ()))

    def chance(self, *place: object) -> random.Random:
        """Chance that depends on the seed and the place alone."""
        return random.Random("/".join(map(str, (self.seed, *place))))

    def copies(self, *place: object) -> int:
        """How often something is sent: once, or up to five times."""
        chance = self.chance("copies", *place)
        return chance.randint(2, 5) if chance.random() < self.rates.repeated else 1

    def disturb(self, task: int, turn: str, reply: Reply) -> Reply | Fault:
        """The reply of a model, or what goes wrong in its place, at most so many times in a row for one turn."""
        with self._lock:
            self._asked[turn] += 1
            asked = self._asked[turn]
        chance = self.chance("model", turn, asked)
        if asked > MOST_IN_A_ROW or chance.random() >= self.rates.model:
            return reply
        kind = chance.choices(list(_MODEL_FAULTS), list(_MODEL_FAULTS.values()))[0]
        self.count(kind)
        with self._lock:
            self._met.setdefault(task, set()).add(kind)
        return _faulty(kind, reply, chance)


def _faulty(kind: ModelFault, reply: Reply, chance: random.Random) -> Reply | Fault:
    match kind:
        case "model 429":
            return Fault(429, {"Retry-After": "1"})
        case "model 500":
            return Fault(500)
        case "model cuts its stream":
            return replace(reply, cut_after_chunks=chance.randint(0, 4))
        case "model stalls":
            return replace(reply, stall_after_chunks=chance.randint(0, 3))
        case "model is slow":
            return replace(reply, first_delay_s=1, delay_s_per_chunk=0.05)
