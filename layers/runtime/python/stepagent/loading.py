"""The catalog's files, brought into the record on each deploy.

A row is written when what its file says has changed since it was loaded last. What was changed live stays until then,
and what was made live has no file and stays. A file that is gone takes its row along, unless that was changed live.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path

from stepagent.catalog import FileRow, read_files
from stepagent.clock import now
from stepagent.errors import ConfigurationError, RecordConflict
from stepagent.llm.registry import MODELS_FILE, load_models
from stepagent.observe import logger
from stepagent.rows import Catalog, Row, RowKey, flaws
from stepagent.store.catalog import Standing, read_standing, write_rows
from stepagent.triggers.rules import TRIGGERS_FILE, check_agents, check_places, load_rules

_ATTEMPTS = 5
_DEPLOYER = "deploy"


def load(directory: Path) -> None:
    """Brings the files into the record. Repeated, it does nothing.

    Raises:
        ConfigurationError: a file is wrong, or does not fit what was changed live; nothing is loaded.
        RecordConflict: others change the catalog all the time.
    """
    files, models = read_files(directory), load_models(directory / MODELS_FILE)
    rules = load_rules(directory / TRIGGERS_FILE)
    check_places(rules)
    for attempt in range(1, _ATTEMPTS + 1):
        standing = read_standing()
        rows = changes(files, standing, models, now())
        check_agents(rules, _catalog({**standing.rows, **{row.key: row for row in rows}}).agents)
        try:
            write_rows(rows, standing.changes)
        except RecordConflict:
            if attempt == _ATTEMPTS:
                raise
        else:
            logger.info("catalog loaded", extra={"changed": [f"{row.key}, version {row.version}" for row in rows]})
            return


def changes(
    files: Mapping[RowKey, FileRow], standing: Standing, models: Collection[str], moment: datetime
) -> list[Row]:
    """The rows to write, so that the record holds what these files say.

    Raises:
        ConfigurationError: the catalog would not fit together.
    """
    written = [
        Row(key, _next_version(standing, key), file.spec, "file", _DEPLOYER, moment, file.digest)
        for key, file in files.items()
        if key not in standing.rows or standing.rows[key].file_digest != file.digest
    ]
    removed = [
        Row(key, row.version + 1, None, "file", _DEPLOYER, moment)
        for key, row in standing.rows.items()
        if key not in files and row.origin == "file" and row.spec is not None
    ]
    rows = [*written, *removed]
    _check({**standing.rows, **{row.key: row for row in rows}}, models)
    return rows


def _next_version(standing: Standing, key: RowKey) -> int:
    return standing.rows[key].version + 1 if key in standing.rows else 1


def _check(rows: Mapping[RowKey, Row], models: Collection[str]) -> None:
    catalog = _catalog(rows)
    for key, row in rows.items():
        for flaw in flaws(row.spec, catalog, models) if row.spec else ():
            whose = f", changed live by {row.changed_by}," if row.origin == "live" else ""
            why = f"{key}{whose} is not right: {flaw.field or 'it'}: {flaw.message}"
            raise ConfigurationError(f"The files do not fit the record: {why}.")


def _catalog(rows: Mapping[RowKey, Row]) -> Catalog:
    return Catalog.of(row.spec for row in rows.values())
