"""Reads replies in which no call is written as text."""

import re
from collections.abc import Callable

from stepagent.llm.reasoning import OPENING_TAG, Reasoning, may_open
from stepagent.llm.reply import Listener, Said

_MAX_SPACE = 64  # space before a tag; more of it is text
_SPACE = re.compile(rf"[\s\ufeff]{{0,{_MAX_SPACE}}}")


class PlainReader:
    """Everything is text, as it is, except reasoning between tags at the front."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._reasoning = Reasoning(listener)
        self._step: Callable[[str], str] = self._front
        self._held = ""
        self._text: list[str] = []

    def feed(self, fragment: str) -> None:
        rest = fragment
        while rest:
            rest = self._step(rest)

    def close(self) -> Said:
        # Space alone is nothing: who hears it would hear it again before the answer that is asked for in its place.
        self._say(self._held if self._held.strip() else "")
        return Said("".join(self._text), self._reasoning.close())

    def _front(self, text: str) -> str:
        """Holds text back while it may still become a tag. Returns what is to be read on, as the other steps do."""
        text, self._held = self._held + text, ""
        space = _SPACE.match(text)
        begin = space.end() if space else 0
        if tag := OPENING_TAG.match(text, begin):
            self._step = self._thinking
            return text[tag.end() :]
        if begin <= _MAX_SPACE and may_open(text[begin:]):
            self._held = text
            return ""
        self._step = self._said
        return text

    def _thinking(self, text: str) -> str:
        rest = self._reasoning.read(text)
        if rest is not None:
            self._step = self._after
        return rest or ""

    def _after(self, text: str) -> str:
        """The space between reasoning and text belongs to neither; a further block may follow it."""
        text = text.lstrip()
        if text:
            self._step = self._front
        return text

    def _said(self, text: str) -> str:
        self._say(text)
        return ""

    def _say(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._listener.text(text)
