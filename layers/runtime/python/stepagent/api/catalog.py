"""What the routes of the catalog do: agents and tools shown, changed and deleted, one version after the other."""

import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from stepagent.api.body import read_object
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.clock import now
from stepagent.errors import BodyTooLarge, Conflict, InvalidRequest, NotFound, RecordConflict
from stepagent.llm.registry import MODELS_FILE, load_models
from stepagent.row_problems import row_problems
from stepagent.rows import MAX_ROW_BYTES, SPECS, Catalog, Row, RowKey, RowKind, Spec, body_of, flaws, users_of
from stepagent.settings import settings
from stepagent.store.catalog import Standing, list_rows, read_row, read_standing, write_rows
from stepagent.tool_specs import ToolSpec

_MAX_BODY_BYTES = 2 * MAX_ROW_BYTES  # the same row, written with more spaces
_ATTEMPTS = 8
_WAIT_S = 0.02  # at most, before the second attempt; twice as long before each that follows

Outcome = TypeVar("Outcome")


class Changed(NamedTuple):
    row: Row
    created: bool


def show_rows(kind: RowKind, caller: Caller) -> dict[str, Any]:
    """All rows of a kind, by name; each without its `row`, which reading it alone shows."""
    return {"object": "list", "data": [_summary(row, caller) for row in list_rows(kind)]}


def show_row(row: Row, caller: Caller) -> dict[str, Any]:
    """A row as this caller may see it: whole with the scope `catalog`, else what a person or a model is told of it."""
    whole = {"row": _written(row.spec)} if row.spec and caller.may("catalog") else {}
    return {**_summary(row, caller), **whole}


def find_row(key: RowKey, version: str | None = None) -> Row:
    """A row as it stands, or in a version, which may be that of its deletion.

    Raises:
        NotFound: there is none.
        InvalidRequest: the version is not a number.
    """
    if version is None:
        row = read_row(key)
        if row is None or row.spec is None:
            raise NotFound(f"There is no {key}.")
        return row
    if not (version.isascii() and version.isdigit() and len(version) <= 6):
        raise InvalidRequest("A version is a number, such as 3.", "version")
    row = read_row(key, int(version))
    if row is None:
        raise NotFound(f"There is no version {version} of {key}.", "version")
    return row


def put_row(key: RowKey, body: bytes, precondition: Precondition, caller: Caller) -> Changed:
    """Writes a row; what stands so already is no new version.

    Raises:
        Forbidden: the caller lacks the scope `catalog`.
        BodyTooLarge: the row is above 100 KB.
        InvalidRequest: the row is wrong, or names what does not exist; `param` names the field.
        PreconditionFailed: the row stands otherwise than the caller takes for granted.
    """
    caller.require("catalog")
    spec = _read_spec(key, body)

    def put(standing: Standing) -> Changed:
        row = _existing(standing, key)
        precondition.check(key, row)
        if row and row.spec and body_of(row.spec) == body_of(spec):
            return Changed(row, created=False)
        _check(spec, standing.catalog)
        return Changed(_write(standing, key, spec, caller), created=row is None)

    return _on_what_stands(put)


def delete_row(key: RowKey, precondition: Precondition, caller: Caller) -> None:
    """Deletes a row. Its versions stay, and runs that began with it go on with their copies.

    Raises:
        Forbidden: the caller lacks the scope `catalog`.
        NotFound: there is none.
        Conflict: another row needs it; the message names those that do.
        PreconditionFailed: the row stands otherwise than the caller takes for granted.
    """
    caller.require("catalog")

    def delete(standing: Standing) -> None:
        row = _existing(standing, key)
        precondition.check(key, row)
        if row is None:
            raise NotFound(f"There is no {key}.")
        if users := users_of(key, standing.catalog):
            raise Conflict(f"The {key} is used by {', '.join(map(str, users))}.", code="in_use")
        _write(standing, key, None, caller)

    _on_what_stands(delete)


def _on_what_stands(change: Callable[[Standing], Outcome]) -> Outcome:
    """Makes a change on the catalog as it stands, again where somebody else was quicker."""
    for attempt in range(_ATTEMPTS):
        try:
            return change(read_standing())
        except RecordConflict:
            time.sleep(random.uniform(0, _WAIT_S * 2**attempt))
    raise Conflict("Others change the catalog all the time; try again.", code="catalog_busy")


def _existing(standing: Standing, key: RowKey) -> Row | None:
    row = standing.rows.get(key)
    return row if row and row.spec else None


def _write(standing: Standing, key: RowKey, spec: Spec | None, caller: Caller) -> Row:
    before = standing.rows.get(key)
    version, digest = (before.version + 1, before.file_digest) if before else (1, "")
    row = Row(key, version, spec, "live", caller.principal, now(), digest)
    write_rows([row], standing.changes)
    return row


def _read_spec(key: RowKey, body: bytes) -> Spec:
    """The row in a body, checked by itself. Its name may be left to the path."""
    content = read_object(body, _MAX_BODY_BYTES)
    if content.get("name", key.name) != key.name:
        raise InvalidRequest(f"The path names {key.name!r}, the body another.", "name")
    try:
        spec = SPECS[key.kind].model_validate({"name": key.name, **content})
    except ValidationError as error:
        field, message = row_problems(error, SPECS[key.kind])[0]
        raise InvalidRequest(f"{field or 'The row'}: {message}.", field or None) from error
    if (size := len(body_of(spec).encode())) > MAX_ROW_BYTES:
        raise BodyTooLarge(f"The row has {size} bytes; at most {MAX_ROW_BYTES} are taken.")
    return spec


def _check(spec: Spec, catalog: Catalog) -> None:
    """Checks what a row names."""
    models = load_models(settings().catalog_dir / MODELS_FILE)
    for flaw in flaws(spec, catalog, models):
        raise InvalidRequest(f"{flaw.field}: {flaw.message}.", flaw.field)


def _summary(row: Row, caller: Caller) -> dict[str, Any]:
    shown: dict[str, Any] = {"object": row.key.kind, "name": row.key.name}
    if row.spec:
        shown["description"] = row.spec.description
    else:
        shown["deleted"] = True
    if isinstance(row.spec, ToolSpec):
        shown |= {"kind": row.spec.kind, "parameters": row.spec.parameters}
    if caller.may("catalog"):
        changed = {"origin": row.origin, "changed_by": row.changed_by, "changed_at": row.changed_at.isoformat()}
        shown |= {"version": row.version, **changed}
    return shown


def _written(spec: Spec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_unset=True)
