"""Event patterns, as rules of EventBridge have them: which events a rule is for.

A part of their language: exact values, `prefix`, `suffix`, `equals-ignore-case`, `anything-but`, `numeric`, `exists`.
What is not a part of it is refused, so that no rule means something else here than there.
"""

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt
from typing import Any

Pattern = Mapping[str, Any]
_MAX_DEPTH = 20  # of fields within each other, of which YAML knows endless ones
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
_OPERATORS = ("anything-but", "equals-ignore-case", "exists", "numeric", "prefix", "suffix")


def matches(pattern: Pattern, content: Any) -> bool:
    """Whether every field that the pattern names has one of the values that it lists for it."""
    fields = content if isinstance(content, Mapping) else {}
    return all(_field_matches(wanted, fields.get(name, [])) for name, wanted in pattern.items())


def check_pattern(pattern: Any, path: str = "match") -> None:
    """Checks that it is a pattern of this part of the language.

    Raises:
        ValueError: it is not; the message names the field and says why.
    """
    if not isinstance(pattern, Mapping) or not pattern:
        raise ValueError(f"{path} must name at least one field, each with a list of values or with fields of its own")
    if path.count(".") > _MAX_DEPTH:
        raise ValueError(f"{path[:80]} … has more than {_MAX_DEPTH} fields within each other")
    for name, wanted in pattern.items():
        if not isinstance(name, str):
            raise ValueError(f"{path} has the name {name!r}, which is no text: put it into quotes")  # YAML: on, 1
        if not isinstance(wanted, list):
            check_pattern(wanted, f"{path}.{name}")
        elif not wanted:
            raise ValueError(f"{path}.{name} lists no value, so nothing would match")
        else:
            for condition in wanted:
                _check_condition(condition, f"{path}.{name}")


def _check_condition(condition: Any, path: str) -> None:
    if not isinstance(condition, Mapping):
        if not _is_value(condition):
            what = type(condition).__name__
            raise ValueError(f"{path} lists a {what}; values are texts, numbers, true, false, null or operators")
        return
    [operator, *more] = condition or [""]
    if operator not in _OPERATORS or more:
        raise ValueError(f"{path} has {operator!r}; one operator at a time is known of {', '.join(_OPERATORS)}")
    if not _is_operand(operator, condition[operator]):
        raise ValueError(f"{path}.{operator} has a value that this operator does not take")


def _is_operand(operator: str, operand: Any) -> bool:
    match operator:
        case "exists":
            return isinstance(operand, bool)
        case "numeric":
            return _is_comparison(operand)
        case "anything-but":
            return all(map(_is_value, operand)) if operand and isinstance(operand, list) else _is_value(operand)
        case _:
            return isinstance(operand, str)


def _is_comparison(operand: Any) -> bool:
    """Pairs of an operator and a number, such as [">", 0, "<=", 5]."""
    if not isinstance(operand, list) or not operand or len(operand) % 2:
        return False
    return all(sign in _COMPARISONS for sign in operand[::2]) and all(_is_number(bound) for bound in operand[1::2])


def _is_value(value: Any) -> bool:
    """Whether JSON has it, as no text with a date of YAML in it has."""
    return value is None or isinstance(value, str | bool | int | float)


def _field_matches(wanted: Any, found: Any) -> bool:
    """One of several values is enough; a field that is missing has none."""
    elements = found if isinstance(found, list) else [found]
    if isinstance(wanted, Mapping):
        return any(matches(wanted, each) for each in elements or [{}])
    values = [each for each in elements if not isinstance(each, Mapping)]  # an object has fields, and is no value
    return any(_condition_holds(condition, values) for condition in wanted)


def _condition_holds(condition: Any, values: list[Any]) -> bool:
    if not isinstance(condition, Mapping):
        return any(_is_same(condition, each) for each in values)
    [(operator, operand)] = condition.items()
    if operator == "exists":
        return bool(operand) == bool(values)
    return any(_holds(operator, operand, each) for each in values)


def _holds(operator: str, operand: Any, value: Any) -> bool:
    match operator:
        case "anything-but":
            return not any(_is_same(each, value) for each in (operand if isinstance(operand, list) else [operand]))
        case "numeric":
            pairs = zip(operand[::2], operand[1::2], strict=True)
            return _is_number(value) and all(_COMPARISONS[sign](value, bound) for sign, bound in pairs)
        case "prefix":
            return isinstance(value, str) and value.startswith(operand)
        case "suffix":
            return isinstance(value, str) and value.endswith(operand)
        case _:
            return isinstance(value, str) and value.casefold() == operand.casefold()


def _is_same(wanted: Any, value: Any) -> bool:
    """Equal in JSON: true is no 1."""
    return isinstance(wanted, bool) == isinstance(value, bool) and bool(wanted == value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
