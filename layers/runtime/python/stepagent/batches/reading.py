"""Inputs out of the bytes of a file. Pure; a line that cannot be read is an input with a problem, and stops nothing."""

import csv
from collections.abc import Iterable, Iterator

from pydantic import ValidationError
from pydantic_core import from_json

from stepagent.batches.models import CopiedInput, InputLine, SourceFormat
from stepagent.errors import InvalidRequest

MAX_LINE_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_TOO_LONG = f"The line is longer than {MAX_LINE_BYTES} bytes."
_COLUMNS = ("id", "input", "session_id")
_MARK = "\ufdd0"  # stands for a line that is too long, and for no character of any text

csv.field_size_limit(MAX_LINE_BYTES)


def read_inputs(chunks: Iterable[bytes], form: SourceFormat) -> Iterator[CopiedInput]:
    """The inputs of a file, in its order; blank lines are none. An id that came before is a problem.

    Raises:
        InvalidRequest: a CSV file has no column `input`.
    """
    seen: set[str] = set()
    lines = split_lines(chunks)
    for found in _jsonl(lines) if form == "jsonl" else _csv(lines):
        if found.id in seen and not found.problem:
            yield CopiedInput(id=found.id, line=found.line, problem=f"The id {found.id!r} came before.")
        else:
            yield found
        if not found.problem:
            seen.add(found.id)


def split_lines(chunks: Iterable[bytes], limit: int = MAX_LINE_BYTES) -> Iterator[bytes | None]:
    """Lines without their ends, None for one that is too long; no more than one line and one chunk are held."""
    rest, skipping, start = b"", False, _BOM
    for chunk in chunks:
        *whole, rest = (rest + chunk).removeprefix(start).split(b"\n")
        start = b""
        for line in whole:
            yield None if skipping or len(line) > limit else line.removesuffix(b"\r")
            skipping = False
        if len(rest) > limit:
            rest, skipping = b"", True
    if rest or skipping:
        yield None if skipping or len(rest) > limit else rest


def _jsonl(lines: Iterable[bytes | None]) -> Iterator[CopiedInput]:
    for number, line in enumerate(lines, 1):
        if line is None:
            yield CopiedInput(id=str(number), line=number, problem=_TOO_LONG)
        elif line.strip():
            yield _of_json(line, number)


def _of_json(line: bytes, number: int) -> CopiedInput:
    try:
        content = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        problem = f"The line is not valid JSON, in which a text stands in quotes: {error}."
        return CopiedInput(id=str(number), line=number, problem=problem)
    if isinstance(content, str):
        content = {"input": content}
    if not isinstance(content, dict):
        return CopiedInput(id=str(number), line=number, problem="The line is neither a JSON object nor a text.")
    return _checked({name: value for name, value in content.items() if value is not None}, number)


def _csv(lines: Iterable[bytes | None]) -> Iterator[CopiedInput]:
    rows = csv.reader((_MARK if line is None else line.decode("utf-8", "replace")) + "\n" for line in lines)
    header = [name.strip().lower() for name in next(rows, [])]
    if "input" not in header:
        raise InvalidRequest("The first line of a CSV source must name its columns, one of which is 'input'.", "source")
    while True:
        number = rows.line_num + 1  # of the row's first line
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield CopiedInput(id=str(number), line=number, problem=f"The row is not valid CSV: {error}.")
        else:
            yield from _of_row(header, row, number)


def _of_row(header: list[str], row: list[str], number: int) -> Iterator[CopiedInput]:
    if row == [_MARK]:
        yield CopiedInput(id=str(number), line=number, problem=_TOO_LONG)
    elif row:
        given = dict(zip(header, row, strict=False))
        yield _checked({name: given[name] for name in _COLUMNS if given.get(name)}, number)


def _checked(content: dict[str, object], number: int) -> CopiedInput:
    """The input that a line describes. Its id is the line's own, or its number."""
    try:
        asked = InputLine.model_validate(content)
    except ValidationError as error:
        known = content.get("id")
        own = str(known)[:128] if isinstance(known, str | int) and not isinstance(known, bool) and known != "" else ""
        return CopiedInput(id=own or str(number), line=number, problem=_in_words(error))
    own_id = asked.id or str(number)
    if not asked.input.strip():
        return CopiedInput(id=own_id, line=number, problem="'input' must not be blank.")
    return CopiedInput(id=own_id, line=number, asked=asked)


def _in_words(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"'{'.'.join(map(str, problem['loc']))}': {problem['msg']}."
