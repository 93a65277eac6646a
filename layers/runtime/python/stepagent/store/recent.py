"""The conversations that this process read last, so that a turn reads what is new of them.

A conversation grows at its end only, and a call that has its result keeps it for every turn behind it. The record stays
the truth: a process that has kept nothing reads the same.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from stepagent.messages import Message
from stepagent.runs import Call, CallStatus, SessionKey
from stepagent.store.conversation import Part, load_parts

_MOST_CHARS = 2_000_000  # of JSON, which takes some twenty times as many bytes at most


class _Kept(NamedTuple):
    parts: tuple[Part, ...] = ()
    chars: int = 0


class RecentHistory:
    """What a process keeps of conversations, those that it read last. Not for threads: a function serves one event."""

    def __init__(self, most_chars: int = _MOST_CHARS) -> None:
        self._most_chars = most_chars
        self._kept: OrderedDict[SessionKey, _Kept] = OrderedDict()
        self._chars = 0  # of all that is kept

    def load(self, session: SessionKey) -> list[Message | Call]:
        """What `load_history` returns."""
        kept = self._drop(session)
        new = load_parts(session, kept.parts[-1].sort_key if kept.parts else "")
        settled = _settled(new)
        self._keep(session, _Kept((*kept.parts, *settled), kept.chars + _chars(settled)))
        return [entry for part in (*kept.parts, *new) for entry in part.entries]

    def forget(self) -> None:
        """Keeps nothing any more."""
        self._kept.clear()
        self._chars = 0

    def _keep(self, session: SessionKey, kept: _Kept) -> None:
        if kept.chars > self._most_chars:  # it would throw out all others, and itself
            return
        self._kept[session] = kept
        self._chars += kept.chars
        while self._chars > self._most_chars:
            self._drop(next(iter(self._kept)))

    def _drop(self, session: SessionKey) -> _Kept:
        kept = self._kept.pop(session, _Kept())
        self._chars -= kept.chars
        return kept


recent = RecentHistory()  # of this process


def _settled(parts: Sequence[Part]) -> list[Part]:
    """The parts that never change, in one piece: all up to the first call without a result."""
    return list(takewhile(lambda part: not part.call or part.call.status is CallStatus.DONE, parts))


def _chars(parts: Sequence[Part]) -> int:
    return sum(len(entry.model_dump_json()) for part in parts for entry in part.entries)
