"""Reasoning that a model writes into its text, between tags."""

import re
from collections.abc import Callable

from stepagent.llm.reply import Listener

Say = Callable[[str], None]

OPENING_TAG = re.compile(r"<think(?:ing)?>")
ANY_TAG = re.compile(r"<(/)?think(?:ing)?>")
_CLOSING_TAG = re.compile(r"</think(?:ing)?>")
_LONGEST = "</thinking>"
_SHORTEST = "</think>"


def may_open(text: str) -> bool:
    """Whether a text, so far, may become an opening tag."""
    return any(tag.startswith(text) for tag in ("<think>", "<thinking>"))


class Reasoning:
    """All the reasoning of one reply, heard as it comes, without its outer space and without its tags."""

    def __init__(self, listener: Listener) -> None:
        self._heard = Trimmed(listener.reasoning)
        self._held = ""

    def read(self, text: str) -> str | None:
        """Reads on in an open block. Returns what follows the closing tag, None while there is none."""
        text = self._held + text
        if closing := _CLOSING_TAG.search(text):
            self._held = ""
            self.add(text[: closing.start()])
            return text[closing.end() :]
        kept = _start_of_closing(text)
        self._heard.add(text[:kept])
        self._held = text[kept:]
        return None

    def add(self, text: str) -> None:
        """Takes in the end of a block."""
        self._heard.add(text)
        self._heard.add("\n")  # between two blocks; the last is outer space

    def close(self) -> str:
        self._heard.add(self._held)
        return self._heard.whole


class Trimmed:
    """Text without its outer space, passed on as it comes: space waits until more text follows it."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._parts: list[str] = []
        self._space: list[str] = []

    @property
    def whole(self) -> str:
        return "".join(self._parts)

    def add(self, text: str) -> None:
        text = text if self._parts else text.lstrip()
        body = text.rstrip()
        if body:
            said = "".join(self._space) + body
            self._space.clear()
            self._parts.append(said)
            self._say(said)
        if len(body) < len(text):
            self._space.append(text[len(body) :])


def _start_of_closing(text: str) -> int:
    """Where a closing tag may have begun at the end of a text; its length where none has."""
    start = text.rfind("<", -len(_LONGEST))
    may_be = start >= 0 and any(tag.startswith(text[start:]) for tag in (_SHORTEST, _LONGEST))
    return start if may_be else len(text)
