"""What may happen to a step at every point: its process dies, or somebody else does something meanwhile."""

from collections.abc import Callable, Iterator
from typing import Any

from stepagent.store.clients import dynamodb

_MOST_REQUESTS = 200


class Crash(Exception):
    """The process died."""


class Disturbance:
    """Does something once, right after the n-th request to the record that a step sends."""

    def __init__(self) -> None:
        dynamodb().meta.events.register("after-call.dynamodb", self._count)
        self._left = 0
        self._act: Callable[[], None] = lambda: None

    def _count(self, **_: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()

    def everywhere(
        self, act: Callable[[], None], prepare: Callable[[], object], step: Callable[[], object]
    ) -> Iterator[int]:
        """Takes a step, prepared anew, with a disturbance after its first request, its second, and so on.

        A step that dies of it is taken again, as a state is that is entered anew. Yields after each, for checks.
        """
        for requests in range(1, _MOST_REQUESTS):
            prepare()
            self._left, self._act = requests, act
            try:
                step()
            except Crash:
                step()
            came, self._left = self._left <= 0, 0
            yield requests
            if not came:
                assert requests > 1, "the step sent no request to the record, so nothing was disturbed"
                return
        raise AssertionError("the step has no end")


def crash() -> None:
    raise Crash
