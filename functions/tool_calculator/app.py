"""The tool `calculator`."""

from typing import Annotated

from calculation import CalculationError, evaluate
from pydantic import Field

from stepagent.tools import ToolError, tool


@tool
def handler(
    expression: Annotated[
        str,
        Field(
            max_length=1000,
            description="Arithmetic such as (125 + 75) / 4, 2**10, sqrt(2) * pi or round(2/3, 2). "
            "Operators: + - * / // % (remainder) ** and !. "
            "Functions: sqrt, abs, round, min, max, floor, ceil, sin, cos, tan (radians), ln, "
            "log (natural, or log(x, base)), log10, exp, factorial. No variables or percentages.",
        ),
    ],
) -> int | float:
    """Calculate an arithmetic expression exactly. Use it for every calculation."""
    try:
        return evaluate(expression)
    except CalculationError as error:
        raise ToolError(str(error)) from error
