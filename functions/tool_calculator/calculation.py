"""Arithmetic on an expression that a model wrote, read by a parser of its own.

Python's parser is not used: it turns 0.1 into a binary float before anyone can look, knows neither `1,250` nor the
signs for times and divided by, and answers deep nesting with a crash.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from arithmetic import CONSTANTS, FUNCTIONS, OPERATORS, CalculationError, Number, apply, literal, presented

__all__ = ["CalculationError", "evaluate"]

MAX_LENGTH = 1_000  # characters
MAX_DEPTH = 40  # parentheses, signs and powers inside each other; each takes a few frames of the stack

ALLOWED = f"allowed are numbers, + - * / // % ** ! ( ), pi, e and {', '.join(FUNCTIONS)}"
PERCENTAGE = "for 15% of 80 write 15/100*80, for a remainder 17 % 5 or 17 % (-5)"
HINTS = {
    "of": PERCENTAGE,
    "x": "write * to multiply; there are no variables",
    "mod": "write 17 % 5 for a remainder",
    "pow": "write 2**3 for a power",
    "math": "write sqrt(2), not math.sqrt(2)",
    "²": "write ** for a power",
    "³": "write ** for a power",
    "√": "write sqrt(2)",
} | dict.fromkeys("=<>", "write one expression, without = and comparisons")

PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # the full-width forms of ASCII
PLAIN |= str.maketrans("\u00d7\u2715\u2217\u00b7\u22c5", "*****")  # times and dots
PLAIN |= str.maketrans("\u00f7\u2215\u2044\u2212\u2013\u2014", "///---")  # divisions, minus and dashes

NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
GROUPED = r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])(?:\.[0-9]+)?"
OTHERS = r"(?P<name>[A-Za-z_π][A-Za-z_0-9]*)|(?P<sign>\*\*|//|[-+*/%^(),!])|(?P<unknown>\S)|(?P<space>\s+)"
IN_CALL = re.compile(f"(?P<number>{NUMBER})|{OTHERS}")
OUTSIDE = re.compile(f"(?P<number>{GROUPED}|{NUMBER})|{OTHERS}")


@dataclass(frozen=True)
class Token:
    """A number, name, sign, unknown character or the end; positions count characters from 1."""

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        return f"{self.text[:20]!r} at position {self.position}"


def evaluate(expression: str) -> int | float:
    """Calculates an arithmetic expression within bounded time and size; a whole result is an integer.

    Raises:
        CalculationError: The expression is malformed, undefined (as 1/0) or too large.
    """
    if len(expression) > MAX_LENGTH:
        raise CalculationError(f"the expression has {len(expression)} characters; at most {MAX_LENGTH} are allowed")
    if not expression.strip():
        raise CalculationError("the expression is empty; write for example (125 + 75) / 4")
    return presented(_Reader(_tokens(expression.translate(PLAIN))).value())


def _tokens(text: str) -> list[Token]:
    """Splits the text; a comma separates arguments inside the parentheses of a call, and groups digits elsewhere."""
    tokens: list[Token] = []
    calls: list[bool] = []  # for each open parenthesis, whether it is a function's
    place = 0
    while match := (IN_CALL if calls and calls[-1] else OUTSIDE).match(text, place):
        place = match.end()
        if match[0] == "(":
            calls.append(bool(tokens) and tokens[-1].kind == "name")
        elif match[0] == ")" and calls:
            calls.pop()
        if match.lastgroup and match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match[0], match.start() + 1))
    return [*tokens, Token("end", "", len(text) + 1)]


class _Reader:
    """Calculates while it reads, by recursive descent: one method for each level of precedence."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    def value(self) -> Number:
        value = self._sum()
        if self._now.kind != "end":
            raise _unexpected(self._now, after_value=True)
        return value

    @property
    def _now(self) -> Token:
        return self._tokens[self._place]

    def _take(self, *signs: str) -> Token | None:
        token = self._now
        if token.kind != "sign" or token.text not in signs:
            return None
        self._place += 1
        return token

    def _sum(self) -> Number:
        value = self._product()
        while sign := self._take("+", "-"):
            value = _step(sign, OPERATORS[sign.text], value, self._product())
        return value

    def _product(self) -> Number:
        value = self._signed()
        while sign := self._take("*", "/", "//", "%"):
            if sign.text == "%":
                _refuse_percentage(sign, self._now)
            value = _step(sign, OPERATORS[sign.text], value, self._signed())
        return value

    def _signed(self) -> Number:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CalculationError(f"more than {MAX_DEPTH} levels of nesting at position {self._now.position}")
        if sign := self._take("-", "+"):
            value = -self._signed() if sign.text == "-" else self._signed()
        else:
            value = self._power()
        self._depth -= 1
        return value

    def _power(self) -> Number:
        base = self._atom()
        while sign := self._take("!"):
            base = _step(sign, OPERATORS["!"], base)
        if sign := self._take("**", "^"):
            return _step(sign, OPERATORS["**"], base, self._signed())
        return base

    def _atom(self) -> Number:
        token = self._now
        if self._take("("):
            value = self._sum()
            self._close(token)
            return value
        if token.kind not in ("number", "name"):
            raise _unexpected(token, after_value=False)
        self._place += 1
        return _step(token, lambda: literal(token.text)) if token.kind == "number" else self._named(token)

    def _named(self, name: Token) -> Number:
        key = name.text.lower()
        if key in CONSTANTS:
            return CONSTANTS[key]
        if key not in FUNCTIONS:
            raise _unexpected(name, after_value=False)
        function, fewest, most = FUNCTIONS[key]
        arguments = self._arguments(name)
        if not fewest <= len(arguments) <= most:
            raise CalculationError(f"{name} takes {_counted(fewest, most)}, not {len(arguments)}")
        return _step(name, function, *arguments)

    def _arguments(self, name: Token) -> list[Number]:
        opening = self._take("(")
        if not opening:
            raise CalculationError(f"{name} needs parentheses, as in {name.text[:20]}(2)")
        if self._take(")"):
            return []
        first = self._place
        values = [self._sum()]
        while self._take(","):
            values.append(self._sum())
        self._close(opening)
        _refuse_unclear_commas(self._tokens[first : self._place])
        return values

    def _close(self, opening: Token) -> None:
        if self._now.kind == "end":
            raise CalculationError(f"{opening} is never closed")
        if not self._take(")"):
            raise _unexpected(self._now, after_value=True)


def _counted(fewest: int, most: int) -> str:
    if fewest == most == 1:
        return "one argument (write 1250, not 1,250)"
    return f"{fewest} to {most} arguments"


def _step(token: Token, function: Callable[..., Number], *operands: Number) -> Number:
    try:
        return apply(function, *operands)
    except CalculationError as error:
        raise CalculationError(f"{token}: {error}") from None


def _unexpected(token: Token, after_value: bool) -> CalculationError:
    key = token.text.lower()
    if token.kind == "end":
        return CalculationError("a number is missing at the end")
    if key in HINTS:
        return CalculationError(f"unexpected {token}; {HINTS[key]}")
    if token.kind == "unknown" or (token.kind == "name" and key not in CONSTANTS and key not in FUNCTIONS):
        return CalculationError(f"unknown {token}; {ALLOWED}")
    if token.text == ",":
        return CalculationError(f"unexpected {token}; write 2.5 for decimals, 1250 or 1,250 for thousands")
    if token.text == ")" and after_value:
        return CalculationError(f"{token} closes nothing")
    missing = "an operator, such as *," if after_value else "a number"
    return CalculationError(f"{missing} is missing before {token}")


def _refuse_percentage(sign: Token, after: Token) -> None:
    """Raises where `%` means a percentage, because 10% + 5 would otherwise be read as the remainder 10 % (+5)."""
    if after.kind == "end" or after.text == "of" or (after.kind == "sign" and after.text != "("):
        raise CalculationError(f"{sign} is the remainder, not a percentage; {PERCENTAGE}")


def _refuse_unclear_commas(arguments: list[Token]) -> None:
    """Raises for commas that may group digits: max(2,000) and max(1,250, 900), but not max(1,250) or max(1, 250)."""
    depth = 0
    grouping: list[Token] = []
    spaced = False
    for before, comma, after in zip(arguments, arguments[1:], arguments[2:], strict=False):
        depth += (before.text == "(") - (before.text == ")")
        if depth or comma.text != ",":
            continue
        spaced |= after.position > comma.position + 1
        if re.fullmatch("[0-9]{1,3},[0-9]{3}", f"{before.text},{after.text.partition('.')[0]}"):
            grouping += [comma] if after.position == comma.position + 1 else []
            spaced |= after.text.startswith("0")
    if grouping and spaced:
        raise CalculationError(f"{grouping[0]} is unclear; write max(1250, 900), not max(1,250, 900)")
