"""Values of Python as JSON, whatever they are: nothing that can be told is lost on the way."""

import dataclasses
import json
import math
from base64 import b64encode
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, Set, ValuesView
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from stepagent.errors import ToolError
from stepagent.llm.fragments import mended

MAX_ITEMS = 10_000  # taken from the iterators of one value, any of which may be endless
_MAX_DEPTH = 100
_LARGEST_NUMBER = 10**4_000  # Python writes no number of more than 4,300 digits


def to_json(value: Any) -> str:
    """The value as strict JSON in one line.

    Decimals and big integers keep their digits. What JSON cannot say becomes text (dates and durations in ISO 8601,
    bytes in base64, NaN as `"NaN"`), sets become sorted lists, and a mapping whose keys would become the same text a
    list of pairs.

    Raises:
        ToolError: the value holds something without a JSON form, holds itself, or is nested too deep.
    """
    return _dumped(_Plainer().plain(value))


def _dumped(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class _Plainer:
    """Makes one value plain: of None, booleans, numbers, strings, lists and dicts with strings as keys."""

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._items_left = MAX_ITEMS

    def plain(self, value: Any) -> Any:
        match value:
            case Enum():
                return self.plain(value.value)
            case str():
                return mended(str.__str__(value))
            case bytes() | bytearray() | memoryview():
                return b64encode(bytes(value)).decode()
            case None | int() | float() | Decimal():
                return _plain_number(value)
        members = _members(value)
        if members is not value:
            return self._entered(value, self.plain, members)
        way = next((way for kinds, way in self._ways() if isinstance(value, kinds)), None)
        return self._entered(value, way, value) if way else _plain_other(value)

    def _ways(self) -> tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...]:
        return (
            (Mapping, self._mapping),
            # Views of a mapping have its order, although two of them count as sets.
            ((Sequence, deque, KeysView, ItemsView, ValuesView), self._list),
            (Set, self._set),
            (Iterator, self._iterator),
        )

    def _entered(self, value: Any, way: Callable[[Any], Any], members: Any) -> Any:
        if id(value) in self._inside:
            _refuse(f"a value of type {type(value).__name__} holds itself")
        if len(self._inside) == _MAX_DEPTH:
            _refuse(f"it is nested more than {_MAX_DEPTH} levels deep")
        self._inside.add(id(value))
        try:
            return way(members)
        finally:
            self._inside.remove(id(value))

    def _mapping(self, mapping: Mapping[Any, Any]) -> Any:
        pairs = [(self.plain(key), self.plain(value)) for key, value in mapping.items()]
        named = {key if isinstance(key, str) else _dumped(key): value for key, value in pairs}
        return named if len(named) == len(pairs) else [list(pair) for pair in pairs]

    def _list(self, items: Iterable[Any]) -> list[Any]:
        return [self.plain(item) for item in items]

    def _set(self, items: Iterable[Any]) -> list[Any]:
        plain = self._list(items)
        try:
            return sorted(plain)
        except TypeError:  # of several types, or without an order
            return sorted(plain, key=_dumped)

    def _iterator(self, items: Iterator[Any]) -> list[Any]:
        taken: list[Any] = []
        for item in items:
            if not self._items_left:
                return [*taken, f"… (there is more; the first {MAX_ITEMS} items are read)"]
            self._items_left -= 1
            taken.append(self.plain(item))
        return taken


def _members(value: Any) -> Any:
    """What an object consists of: a dict for one whose members have names, a list for an array, else the object."""
    if isinstance(value, BaseModel):
        try:
            return value.model_dump(warnings=False)
        except ValueError as error:
            _refuse(f"a value of type {type(value).__name__} cannot be serialized: {error}")
    if isinstance(value, type):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if not isinstance(value, Mapping) and callable(getattr(value, "keys", None)):
        return dict(value)  # rows of a database, tables of pandas
    return value.tolist() if callable(getattr(value, "tolist", None)) else value  # arrays and numbers of numpy


def _plain_number(value: bool | int | float | Decimal | None) -> Any:
    match value:
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) < _LARGEST_NUMBER else f"{Decimal(value):f}"
        case float() if math.isfinite(value):
            return float(value)
    return str(Decimal(value))


def _plain_other(value: Any) -> Any:
    """Dates, durations, paths, ids and whatever else has a text that stands for it."""
    if isinstance(value, PurePath | Fraction):
        return str(value)
    try:
        return to_jsonable_python(value, inf_nan_mode="strings")
    except ValueError:
        _refuse(f"a value of type {type(value).__name__} has no JSON form")


def _refuse(why: str) -> NoReturn:
    raise ToolError(f"The tool ran, but its result cannot be shown: {why}.")
