"""Finds a call that a model wrote on a line of its own, after text for people."""

import re
from collections.abc import Callable

from stepagent.llm.reasoning import Say
from stepagent.llm.reply import RequestedCall
from stepagent.llm.written_call import CallUnfinished, NoCall, read_call

_GAP = r"[^\S\n]{0,8}"
_CALL_LINE = re.compile(rf"{_GAP}1{_GAP}[:：]\s{{0,8}}(?:```\w{{0,10}}\s{{0,8}})?(?=[{{｛])")
_START_OF_CALL_LINE = re.compile(rf"{_GAP}(?:1{_GAP}(?:[:：]\s{{0,8}}(?:`{{1,2}}|```\w{{0,10}}\s{{0,8}})?)?)?")
_BARE_CALL = re.compile(r"\s{0,8}[{｛]\s{0,8}[\"'“]?toolId\b")
_START_OF_BARE_CALL = re.compile(r"\s{0,8}(?:[{｛]\s{0,8}(?:[\"'“]?([A-Za-z]{0,6}))?)?")
_MAX_CANDIDATES = 8  # each is read anew, so their number bounds the time that a reply can cost
_FIRST_LOOK = 64  # characters


class CallFinder:
    """Passes text on, and keeps back a line from where it may be a call until it is seen what it is.

    Such a line begins as a call does, or, where one is expected, the text begins with the object of a call. A call of
    an offered tool ends the text; whatever else such a line turns out to be is text, unchanged.
    """

    def __init__(self, say: Say, offered: frozenset[str]) -> None:
        self.call: RequestedCall | None = None
        self._say = say
        self._offered = offered
        self._step: Callable[[str], str] = self._inside_line
        self._held = ""
        self._candidate = _Candidate()
        self._candidates_left = _MAX_CANDIDATES

    def expect_call(self) -> None:
        """The text to come is marked as an answer; some models mark a call so, and write nothing else."""
        self._step = self._text_start

    def feed(self, text: str) -> None:
        while text and self.call is None:
            text = self._step(text)

    def close(self) -> None:
        """The end of the text: what is still kept back is a call or text."""
        while self.call is None and (unread := self._candidate.take()):
            self.feed(self._judge(unread))
        self._say(self._held)

    def _text_start(self, text: str) -> str:
        """Returns what is to be read on, as all steps do."""
        text, self._held = self._held + text, ""
        if (start := _START_OF_BARE_CALL.fullmatch(text)) and "toolId".startswith(start[1] or ""):
            self._held = text
            return ""
        self._step = self._inside_candidate if _BARE_CALL.match(text) else self._inside_line
        return text

    def _inside_line(self, text: str) -> str:
        line, newline, rest = text.partition("\n")
        self._say(line + newline)
        if newline and self._candidates_left:
            self._step = self._line_start
        return rest

    def _line_start(self, text: str) -> str:
        text, self._held = self._held + text, ""
        if _START_OF_CALL_LINE.fullmatch(text):
            self._held = text
            return ""
        if _CALL_LINE.match(text):
            self._candidates_left -= 1
            self._candidate = _Candidate()
            self._step = self._inside_candidate
        else:
            self._step = self._inside_line
        return text

    def _inside_candidate(self, text: str) -> str:
        rest = self._candidate.add(text)
        if rest is None:
            return ""
        unread = self._candidate.take()
        try:
            return self._judge(unread, final=False) + rest
        except CallUnfinished:
            self._candidate.put_back(unread)
            return rest

    def _judge(self, text: str, *, final: bool = True) -> str:
        """Takes the call, or returns the text, to be read as such.

        Raises:
            CallUnfinished: more of it may follow.
        """
        try:
            call = read_call(text)
        except CallUnfinished:
            if not final:
                raise
        except NoCall:
            pass
        else:
            if call.name in self._offered:
                self.call = call
                return ""
        self._step = self._inside_line
        return text


class _Candidate:
    """Text that may become a call, and when to look at it: so seldom that all looks together cost linear time.

    A look is due by what was written, never by how it was cut into fragments.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._depth = 0
        self._looked_at = 0

    def add(self, text: str) -> str | None:
        """Takes in text up to where a look is due and returns the rest of it; None when none is due."""
        for position, char in enumerate(text, 1):
            self._size += 1
            self._depth += (char in "{｛") - (char in "}｝")
            if self._is_due(char):
                self._parts.append(text[:position])
                return text[position:]
        self._parts.append(text)
        return None

    def take(self) -> str:
        """The text so far, which is kept no longer."""
        text = "".join(self._parts)
        self._parts.clear()
        return text

    def put_back(self, text: str) -> None:
        self._parts.append(text)
        self._looked_at = self._size

    def _is_due(self, char: str) -> bool:
        if char in "}｝" and self._depth <= 0:
            return self._size >= 1.25 * self._looked_at
        return self._size >= max(_FIRST_LOOK, 2 * self._looked_at)
