"""Numbers and what can be done with them: exact where an exact value exists, bounded in size everywhere."""

import math
import operator
import sys
from collections.abc import Callable
from fractions import Fraction

Number = Fraction | float  # floats only for what has no exact value: most roots, powers, logarithms and angles

MAX_BITS = 10_000  # of an exact value
MAX_DIGITS = 3_000  # about the same in decimal; Python prints no integer above 4,300 digits
MAX_FACTORIAL = 1_000
MAX_PLACES = 30
MAX_ANGLE = 10**9  # radians; beyond it a float places the angle too roughly on the circle
EPSILON = sys.float_info.epsilon


class CalculationError(ValueError):
    """The expression has no value; the text tells its writer what to change."""


def literal(text: str) -> Number:
    """Reads a decimal number such as `1,250`, `.5` or `6.02e23` without rounding it.

    Raises:
        CalculationError: The exponent is out of bounds.
    """
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > MAX_DIGITS:
        raise CalculationError(f"exponents of ten go from -{MAX_DIGITS} to {MAX_DIGITS}")
    return _settled(Fraction(text.replace(",", "")))


def apply(function: Callable[..., Number], *operands: Number) -> Number:
    """Calculates one step.

    Raises:
        CalculationError: The step is undefined for these operands, or its result too large.
    """
    try:
        return _settled(function(*operands))
    except ZeroDivisionError:
        raise CalculationError("division by zero") from None
    except OverflowError:
        raise _too_large() from None


def presented(value: Number) -> int | float:
    """The number as a person writes it: whole ones as integers, others as the nearest float.

    Raises:
        CalculationError: A float cannot hold it.
    """
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    try:
        shown = float(value) if value == 0 else _not_vanished(float(value))
    except OverflowError:
        raise _too_large() from None
    # from 1e15 on a float has gaps, and an integer would invent digits
    return int(shown) if shown.is_integer() and abs(shown) < 1e15 else shown


def _too_large() -> CalculationError:
    return CalculationError(f"the result is too large: whole numbers have up to {MAX_DIGITS} digits, others 308")


def _not_vanished(value: float) -> float:
    """Passes on a float that stands for a value other than zero, unless it became zero by underflow."""
    if value == 0:
        raise CalculationError("the result is too close to zero for a number with decimals")
    return value


def _settled(value: Number) -> Number:
    """Ends a step: bounds what is exact, and rids floats of noise."""
    if isinstance(value, Fraction):
        return value if _bits(value) <= MAX_BITS else _inexact(value)
    if not math.isfinite(value):
        raise _too_large()
    short = float(f"{value:.11g}")  # sqrt(2)**2 comes out as 2.0000000000000004 and means 2
    return short if abs(value - short) <= abs(value) * 16 * EPSILON else value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _inexact(value: Fraction) -> float:
    if value.denominator == 1:
        raise _too_large()
    return _not_vanished(float(value))


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1 and (_bits(base) - 1) * abs(exponent) <= MAX_BITS:
            return Fraction(base**exponent.numerator)
        if exponent == Fraction(1, 2):
            return _sqrt(base)
        if exponent.denominator == base.denominator == 1 and exponent > 0:
            raise _too_large()  # unlike (1 + 0.05/365)**3650, a whole number is not answered roughly
    if base < 0 and Fraction(exponent).denominator != 1:
        raise CalculationError("a negative number has no real power with a fractional exponent")
    result = float(float(base) ** float(exponent))
    return result if base == 0 else _not_vanished(result)


def _sqrt(value: Number) -> Number:
    if value < 0:
        raise CalculationError("a negative number has no real square root")
    exact = Fraction(value)
    root = Fraction(math.isqrt(exact.numerator), math.isqrt(exact.denominator))
    return root if root * root == exact else math.sqrt(value)


def _factorial(value: Number) -> Number:
    if value not in range(MAX_FACTORIAL + 1):
        raise CalculationError(f"a factorial needs a whole number from 0 to {MAX_FACTORIAL}")
    return Fraction(math.factorial(int(value)))


def _round(value: Number, places: Number = Fraction(0)) -> Number:
    if places not in range(-MAX_PLACES, MAX_PLACES + 1):
        raise CalculationError(f"the places to round to are a whole number from -{MAX_PLACES} to {MAX_PLACES}")
    scale = Fraction(10) ** int(places)
    rounded = math.floor(abs(Fraction(value)) * scale + Fraction(1, 2)) / scale  # halves go away from zero
    return -rounded if value < 0 else rounded


def _logarithm(function: Callable[[int | Number], float]) -> Callable[[Number], float]:
    def of(value: Number) -> float:
        if value <= 0:
            raise CalculationError("a logarithm needs a number above zero")
        if isinstance(value, Fraction) and not 1e-300 < value < 1e300:  # a float cannot hold it, integers can
            return function(value.numerator) - function(value.denominator)
        return function(value)

    return of


def _log(value: Number, base: Number = math.e) -> Number:
    return _ln(value) / (1 if base == math.e else _ln(base))


def _angle(function: Callable[[Number], float]) -> Callable[[Number], float]:
    def of(angle: Number) -> float:
        if not -MAX_ANGLE <= angle <= MAX_ANGLE:
            raise CalculationError(f"an angle is in radians, at most {MAX_ANGLE}")
        value = function(angle)
        # pi is known to 16 digits only, so that sin(pi) comes out as 1e-16: within that error the value is zero
        return 0.0 if isinstance(angle, float) and abs(value) <= abs(angle) * EPSILON else value

    return of


def _tan(angle: Number) -> Number:
    if _cos(angle) == 0:
        raise CalculationError("the tangent has no value at this angle")
    return _sin(angle) / _cos(angle)


_ln, _log10 = _logarithm(math.log), _logarithm(math.log10)
_sin, _cos = _angle(math.sin), _angle(math.cos)

CONSTANTS: dict[str, Number] = {"pi": math.pi, "π": math.pi, "e": math.e}

OPERATORS: dict[str, Callable[..., Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": lambda left, right: Fraction(left // right),
    "%": operator.mod,
    "**": _power,
    "^": _power,
    "!": _factorial,
}

# name: (function, fewest arguments, most arguments)
FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {
    "sqrt": (_sqrt, 1, 1),
    "abs": (abs, 1, 1),
    "round": (_round, 1, 2),
    "min": (lambda *values: min(values), 1, 1_000),
    "max": (lambda *values: max(values), 1, 1_000),
    "floor": (lambda value: Fraction(math.floor(value)), 1, 1),
    "ceil": (lambda value: Fraction(math.ceil(value)), 1, 1),
    "sin": (_sin, 1, 1),
    "cos": (_cos, 1, 1),
    "tan": (_tan, 1, 1),
    "log": (_log, 1, 2),
    "ln": (_ln, 1, 1),
    "log10": (_log10, 1, 1),
    "exp": (lambda value: _not_vanished(math.exp(value)), 1, 1),
    "factorial": (_factorial, 1, 1),
}
