"""Texts with holes that are filled from an event: `{% … %}` holds JSONata, the language of the state machine.

Expressions are the author's, an event is data: no part of it is ever evaluated, and an expression that runs too long
or too deep is stopped.
"""

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jsonata import Jsonata

from stepagent.errors import InvalidRequest

MAX_VALUE_CHARS = 500  # of a value within a text; what is longer belongs into a file
_HOLE = re.compile(r"\{%(.*?)%\}", re.DOTALL)
_EVALUATES = re.compile(r"\$eval\b")
_MAX_S = 0.5
_AGAIN_S = 0.1
_MAX_DEPTH = 100


def check_template(text: str) -> str:
    """The text, if its holes are whole and each holds JSONata.

    Raises:
        ValueError: one is not; the message says why.
    """
    if "{%" in (rest := _HOLE.sub("", text)) or "%}" in rest:
        raise ValueError("a hole begins with {% and ends with %}; here one of them stands alone")
    for hole in _HOLE.finditer(text):
        if _EVALUATES.search(hole[1]):
            raise ValueError(f"{hole[0]} has $eval, which would run what an event says")
        try:
            _parsed(hole[1])
        except Exception as error:  # whatever a parser comes to
            raise ValueError(f"{hole[0]} is no JSONata: {error}") from error
    return text


def fill(text: str, event: dict[str, Any], show: Callable[[Any], str]) -> str:
    """The text with what its expressions find in an event, as `show` writes it.

    Raises:
        InvalidRequest: an expression finds nothing there, or cannot be evaluated on it.
    """
    return _HOLE.sub(lambda hole: show(_found(hole[1], event)), text)


def in_one_line(value: Any) -> str:
    """A value as it stands within a text: it begins no line, so that it cannot pass for words of the author's."""
    line = " ".join("".join(each if each.isprintable() else " " for each in in_full(value)).split())
    return line if len(line) <= MAX_VALUE_CHARS else f"{line[: MAX_VALUE_CHARS - 1]}…"


def in_full(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parsed(expression: str) -> Jsonata:
    return Jsonata.jsonata(expression, stack=_MAX_DEPTH)


def _found(expression: str, event: dict[str, Any]) -> Any:
    try:
        with _stopped_in_time():
            value = _parsed(expression).evaluate(event)  # parsed anew, since it forgets how deep it was when it fails
            json.dumps(value)  # functions are values, too
    except Exception as error:  # of JSONata's own, or of Python's, as for a division by zero; neither may be quoted
        code = getattr(error, "error", None) or type(error).__name__
        raise _failed(expression, f"cannot be evaluated on this event ({code})") from error
    if value is None:
        raise _failed(expression, "finds nothing in this event")
    return value


@contextmanager
def _stopped_in_time() -> Iterator[None]:
    """Raises TimeoutError into what runs too long; for the main thread, in which functions are called.

    JSONata would look at the clock between its own steps alone, and a regular expression, for which a hostile text can
    take years, is one step. The alarm goes off inside of that, and again where something swallows it.
    """
    before = signal.signal(signal.SIGALRM, _stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, _MAX_S, _AGAIN_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # once more: the alarm may have gone off in the line above
        signal.signal(signal.SIGALRM, before)


def _stop(*_: object) -> None:
    raise TimeoutError


def _failed(expression: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{{%{expression}%}} {why}.", None, "rule_does_not_fit")
