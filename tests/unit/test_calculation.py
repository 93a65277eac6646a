"""The calculator's arithmetic: what it answers, what it refuses, and that it always ends."""

import contextlib
import json
import math
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepagent.tools import ToolError
from tests.functions import load

calculation = load("tool_calculator", "calculation")
evaluate: Callable[[str], int | float] = calculation.evaluate
CalculationError: type[ValueError] = calculation.CalculationError

PIECES = [*"012 97.+-*/%^!=()', x_", "0.1", "1,250", "1e3000", "1e-3000", "pi", "//", "**", "\u00d7", "\ud800", "\0"]
PIECES += ["sqrt(", "factorial(", "max(", "round(", "exp(", "ln(", "log(", "tan(", "floor(", "__import__("]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("17*23", 391),
        ("(125 + 75) / 4", 50),
        ("7 / 2", 3.5),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("17 % (-5)", -3),
        ("2 + 3 * 4", 14),
        ("-2**2", -4),
        ("2**3**2", 512),
        ("2^10", 1024),
        ("2**-1", 0.5),
        ("0**0", 1),
        ("--3", 3),
        ("5! / 3!", 20),
        ("1.5e3", 1500),
        (".5 + 5.", 5.5),
        ("1\n+ 2", 3),
    ],
)
def test_evaluate_follows_the_usual_precedence(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [("0.1 + 0.2", 0.3), ("0.1 * 3", 0.3), ("4.35 * 100", 435), ("1 / 3 * 3", 1), ("round(2.675, 2)", 2.68)],
)
def test_evaluate_has_no_binary_noise(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize("expression", ["(125+75)/4", "sqrt(2)**2", "log10(1000)", "cos(pi/3)*2", "8**(1/3)", "1e3"])
def test_evaluate_gives_integers_for_whole_results(expression: str) -> None:
    assert isinstance(evaluate(expression), int)


def test_evaluate_keeps_every_digit_of_integers() -> None:
    assert evaluate("12345678901234567890 * 98765432109876543210 + 1000!") == (
        12345678901234567890 * 98765432109876543210 + math.factorial(1000)
    )
    assert evaluate("sqrt(10**400)") == 10**200


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sqrt(2)", math.sqrt(2)),
        ("PI", math.pi),
        ("e", math.e),
        ("abs(-3) + min(3, 1, 2) + max(4, 5)", 9),
        ("round(2.5) + round(-3.5)", -1),
        ("round(1234, -2)", 1200),
        ("floor(-2.5) + ceil(2.1)", 0),
        ("ceil(sqrt(2)**2)", 2),
        ("sin(pi) + cos(pi/2)", 0),
        ("tan(pi/4)", 1),
        ("ln(e) + log(e)", 2),
        ("log(8, 2)", 3),
        ("exp(1)", math.e),
        ("ln(10**2000)", 2000 * math.log(10)),
        ("factorial(5)", 120),
        ("1000 * (1 + 0.05/365)**(365*30)", 1000 * (1 + 0.05 / 365) ** (365 * 30)),
    ],
)
def test_evaluate_knows_functions_and_constants(expression: str, value: float) -> None:
    assert evaluate(expression) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("6 \u00d7 7 \u00f7 2 \u2212 1", 20),  # typeset times, divided by, minus
        ("\uff11\uff12\uff0b\uff13\uff0a\uff08\uff14\uff09", 24),  # full-width 12+3*(4)
        ("1,250*3", 3750),
        ("1,250,000.5 + 1", 1250001.5),
        ("max(1,250)", 250),
        ("max(1, 250)", 250),
        ("max((1,250), 900)", 1250),
        ("max(min(100,200), 300)", 300),
    ],
)
def test_evaluate_reads_what_people_write(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("hello", r"'hello' at position 1; allowed are"),
        ("2 + apples", r"'apples' at position 5"),
        ("__import__('os').system('id')", "'__import__' at position 1"),
        ("(1).__class__", r"position 4"),
        ("lambda: 1", "'lambda'"),
        ("'1' * 9", "unknown"),
        ("[1]", "unknown"),
        ("1 < 2", "comparisons"),
        ("2 + 2 =", "without ="),
        ("math.sqrt(2)", r"not math\.sqrt"),
        ("3 x 4", r"write \*"),
        ("5²", r"write \*\*"),
        ("15% of 80", "write 15/100"),
        ("50%", "not a percentage"),
        ("10% + 5", "not a percentage"),
        ("200 * 15%", "not a percentage"),
        ("2(3 + 4)", r"operator.* before '\(' at position 2"),
        ("1.2.3", "operator"),
        ("1 +", "number is missing at the end"),
        ("* 2", r"number is missing before '\*'"),
        ("()", r"number is missing before '\)'"),
        ("(1 + 2", r"'\(' at position 1 is never closed"),
        ("1 + 2)", "closes nothing"),
        ("0,25", "write 2.5 for decimals"),
        ("12,34,567", "position 3"),
        ("max(1,250, 900)", "unclear"),
        ("max(2,000)", "unclear"),
        ("sqrt(1,250)", "write 1250"),
        ("sqrt 2", "needs parentheses"),
        ("max()", "1 to 1000 arguments"),
        ("1 / 0", "'/' at position 3: division by zero"),
        ("0 ** -1", "division by zero"),
        ("5 % 0", "division by zero"),
        ("5 // (1 - 1)", "division by zero"),
        ("log(5, 1)", "division by zero"),
        ("sqrt(-1)", "negative"),
        ("(-8)**(1/3)", "negative"),
        ("ln(0)", "above zero"),
        ("tan(pi/2)", "tangent"),
        ("sin(1e10)", "radians"),
        ("factorial(2.5)", "whole number"),
        ("round(1, 0.5)", "places"),
        ("1e-400", "too close to zero"),
        ("2**-20000", "too close to zero"),
        ("inf - inf", "'inf'"),
        ("nan", "'nan'"),
    ],
)
def test_evaluate_says_what_to_change(expression: str, advice: str) -> None:
    with pytest.raises(CalculationError, match=advice):
        evaluate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "(10**300)**300",
        "(((9**99)**99)**99)**99",
        "10**400 / 3",
        "factorial(10**6)",
        "3!!!!",
        "1e999999999",
        "1e" + "9" * 900,
        "exp(1000)",
        "1e308 * 10 * pi",
        "(1.5**999)**999",
        "9**3000*" * 100 + "1",
        "(" * 499 + "1" + ")" * 499,
        "-" * 999 + "1",
        "2**" * 300 + "1",
        "sqrt(" * 150 + "2" + ")" * 150,
        "9" * 1_001,
    ],
)
def test_evaluate_refuses_at_once_what_is_too_large(expression: str) -> None:
    start = time.process_time()
    with pytest.raises(CalculationError):
        evaluate(expression)
    assert time.process_time() - start < 0.5


@settings(max_examples=400, deadline=2_000)
@given(st.text(max_size=1_100) | st.lists(st.sampled_from(PIECES), max_size=300).map("".join))
@example("1/7e2999+" * 110 + "1")
@example("(1/7)**3000*(1/3)**3000+" * 40 + "1")
@example("1000!//" * 140 + "1")
def test_evaluate_always_ends_in_a_json_number_or_its_own_error(expression: str) -> None:
    with contextlib.suppress(CalculationError):
        value = evaluate(expression)
        assert json.loads(json.dumps(value, allow_nan=False)) == value


@given(st.integers(), st.integers(), st.integers(min_value=1))
def test_evaluate_agrees_with_exact_integers(left: int, right: int, divisor: int) -> None:
    assert evaluate(f"({left} - {right}) * {right} // {divisor} + ({left}) % {divisor}") == (
        (left - right) * right // divisor + left % divisor
    )


def test_calculator_hands_refusals_to_the_model() -> None:
    handler = load("tool_calculator", "app").handler
    assert handler.run({"expression": "17*23"}) == 391
    with pytest.raises(ToolError, match="division by zero"):
        handler.run({"expression": "1/0"})
