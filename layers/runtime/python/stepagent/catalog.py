"""Agents and tools: as files hold them, and as runs find them in the record."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import ValidationError

from stepagent.agents import AgentSpec
from stepagent.errors import ConfigurationError, NotFound
from stepagent.llm.registry import MODELS_FILE, load_models
from stepagent.mcp_discovery import with_discovered_tools
from stepagent.row_problems import in_words
from stepagent.rows import SPECS, Catalog, RowKey, RowKind, Spec, flaws, key_of
from stepagent.store.catalog import list_rows, read_row, read_rows
from stepagent.tool_specs import READ_RESULT, ToolSpec
from stepagent.yaml_text import read_yaml

_READS = 3  # an agent may lose a tool between the two requests that read them; its next version has it no more
_NAMES_SHOWN = 20


class FileRow(NamedTuple):
    """A row as a file holds it. `file` is its path in the catalog; `digest` changes with what it says."""

    file: str
    digest: str
    spec: Spec


class FoundAgent(NamedTuple):
    """What a run begins with. `versions` are those of the rows, by kind and name, such as `tool search`."""

    agent: AgentSpec
    tools: tuple[ToolSpec, ...]
    versions: dict[str, int]


def find_agent(name: str) -> FoundAgent:
    """An agent and its tools as they stand now, in two requests.

    Raises:
        NotFound: there is no such agent; worded as OpenAI clients know it, since `model` names the agent.
        ConfigurationError: it has tools that do not exist; the message names them.
    """
    missing: list[str] = []
    for _ in range(_READS):
        row = read_row(RowKey("agent", name))
        agent = row.spec if row else None
        if row is None or not isinstance(agent, AgentSpec):
            raise _no_such_agent(name)
        rows = read_rows({RowKey("tool", name) for name in (READ_RESULT, *(use.tool for use in agent.tools))})
        found = Catalog.of(tool.spec for tool in rows)
        missing = [use.tool for use in agent.tools if use.tool not in found.tools]
        if not missing:
            versions = {f"{each.key.kind} {each.key.name}": each.version for each in (row, *rows)}
            return FoundAgent(*with_discovered_tools(agent, found.tools_of(agent)), versions)
    raise ConfigurationError(f"Agent {name!r} has tools that do not exist: {', '.join(missing)}.")


@cache
def load_catalog(directory: Path) -> Catalog:
    """The catalog of these files, read once a process. Raises as `read_files` does."""
    return Catalog.of(row.spec for row in read_files(directory).values())


def read_files(directory: Path) -> dict[RowKey, FileRow]:
    """Reads `agents/*.yaml` and `tools/*.yaml`, which must fit together and to `models.yaml`.

    Raises:
        ConfigurationError: a row is wrong; the message names the file and the field.
    """
    rows: dict[RowKey, FileRow] = {}
    for row in (*_rows(directory, "agent"), *_rows(directory, "tool")):
        key = key_of(row.spec)
        if key in rows:
            raise ConfigurationError(f"{rows[key].file} and {row.file} both hold {key}.")
        rows[key] = row
    catalog = Catalog.of(row.spec for row in rows.values())
    if not catalog.agents:
        raise ConfigurationError(f"There are no agents in {directory}.")
    models = load_models(directory / MODELS_FILE)
    for row in rows.values():
        for flaw in flaws(row.spec, catalog, models):
            raise _wrong(row.file, f"{flaw.field or 'it'}: {flaw.message}")
    return rows


def _rows(directory: Path, kind: RowKind) -> list[FileRow]:
    return [_row(path, kind) for path in sorted((directory / f"{kind}s").glob("*.yaml"))]


def _row(path: Path, kind: RowKind) -> FileRow:
    file = f"{path.parent.name}/{path.name}"
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        spec = SPECS[kind].model_validate(content)
        # What it says, not how: comments and spaces are no change.
        digest = hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()
    except ValidationError as error:
        raise _wrong(file, in_words(error, SPECS[kind])) from error
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _wrong(file, f"{error.problem}{place}") from error
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        raise _wrong(file, str(error)) from error
    return FileRow(file, digest, spec)


def _wrong(file: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"catalog/{file} is not right: {why}.")


def _no_such_agent(name: str) -> NotFound:
    names = sorted(row.key.name for row in list_rows("agent"))
    more = ", …" if len(names) > _NAMES_SHOWN else ""
    listed = ", ".join(names[:_NAMES_SHOWN])
    return NotFound(f"There is no agent {name[:80]!r}; there are: {listed}{more}.", "model", "model_not_found")
