"""Reads replies in the text protocol: `0:` and an answer, or `1:` and a call."""

import re
from collections.abc import Callable

from stepagent.llm.call_finder import CallFinder
from stepagent.llm.protocol import RULE
from stepagent.llm.reasoning import ANY_TAG, OPENING_TAG, Reasoning, Trimmed, may_open
from stepagent.llm.reply import Correction, Listener, Said
from stepagent.llm.written_call import NoCall, read_call

_SPACE = re.compile(r"\A[\s\ufeff]+")
_PREFIX = re.compile(r"([01])[^\S\n]{0,8}[:：]")
_START_OF_PREFIX = re.compile(r"[01][^\S\n]{0,8}")
_MAX_HELD = 2_000  # characters without a prefix that wait for a closing tag
_MAX_SAID = 500  # characters of a broken reply that the model is shown again


class PromptReader:
    """Tells answers from calls by the leading prefix alone, and lets answers flow.

    Text without a prefix is an answer too. A line of an answer that is a call of an offered tool ends it, and so does
    the object of such a call alone behind `0:`.
    """

    def __init__(self, listener: Listener, offered: frozenset[str]) -> None:
        self._reasoning = Reasoning(listener)
        self._answer = Trimmed(listener.text)
        self._finder = CallFinder(self._answer.add, offered)
        self._called: list[str] | None = None
        self._held = ""
        self._may_have_thought = True  # with an opening tag that is not in the reply
        self._step: Callable[[str], str] = self._front

    def feed(self, fragment: str) -> None:
        text, self._held = self._held + fragment, ""
        while text:
            text = self._step(text)

    def close(self) -> Said:
        self._finder.feed(self._held)
        self._finder.close()
        reasoning = self._reasoning.close()
        if self._called is None:
            return Said(self._answer.whole, reasoning, self._finder.call)
        written = "".join(self._called)
        try:
            return Said("", reasoning, read_call(written))
        except NoCall as error:
            said = f"1:{written}"
            bounded = said if len(said) <= _MAX_SAID else f"{said[:_MAX_SAID]}…"
            return Said("", reasoning, correction=Correction(bounded, RULE.format(why=error)))

    def _front(self, text: str) -> str:
        """Finds out what the reply begins with. Returns what is to be read on, as the other steps do."""
        text = _SPACE.sub("", text)
        if tag := OPENING_TAG.match(text):
            self._step, self._may_have_thought = self._thinking, False
            return text[tag.end() :]
        if prefix := _PREFIX.match(text):
            self._step = self._answering if prefix[1] == "0" else self._calling
            self._called = None if prefix[1] == "0" else []
            self._finder.expect_call()
            return text[prefix.end() :]
        if may_open(text) or _START_OF_PREFIX.fullmatch(text):
            self._held = text
            return ""
        self._step = self._without_prefix if self._may_have_thought else self._answering
        return text

    def _thinking(self, text: str) -> str:
        rest = self._reasoning.read(text)
        if rest is not None:
            self._step = self._front
        return rest or ""

    def _without_prefix(self, text: str) -> str:
        """Waits for a closing tag whose opening tag was part of the request, as some templates have it."""
        tag = ANY_TAG.search(text, 0, _MAX_HELD)
        if tag and tag[1]:
            self._reasoning.add(text[: tag.start()])
            self._step, self._may_have_thought = self._front, False
            return text[tag.end() :]
        if tag or len(text) >= _MAX_HELD:
            self._step = self._answering
            return text
        self._held = text
        return ""

    def _answering(self, text: str) -> str:
        self._finder.feed(text)
        return ""

    def _calling(self, text: str) -> str:
        assert self._called is not None
        self._called.append(text)
        return ""
