"""Agents and tools as the catalog's files hold them, checked when they are read."""

from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import yaml
from pydantic import ValidationError

from stepagent.agents import AgentSpec, ToolSpec
from stepagent.errors import ConfigurationError, NotFound
from stepagent.models import problems

Row = TypeVar("Row", AgentSpec, ToolSpec)


class Catalog(NamedTuple):
    agents: dict[str, AgentSpec]
    tools: dict[str, ToolSpec]

    def agent(self, name: str) -> AgentSpec:
        """One agent.

        Raises:
            NotFound: there is no such agent; worded as OpenAI clients know it, since `model` names the agent.
        """
        if name not in self.agents:
            names = ", ".join(sorted(self.agents))
            raise NotFound(f"There is no agent {name!r}; there are: {names}.", "model", "model_not_found")
        return self.agents[name]

    def tools_of(self, agent: AgentSpec) -> tuple[ToolSpec, ...]:
        return tuple(self.tools[name] for name in agent.tools)


@cache
def load_catalog(directory: Path) -> Catalog:
    """Reads `agents/*.yaml` and `tools/*.yaml`, once a process.

    Raises:
        ConfigurationError: a row is wrong, or an agent names a tool that does not exist; the message says which.
    """
    agents = _rows(directory / "agents", AgentSpec)
    tools = _rows(directory / "tools", ToolSpec)
    if not agents:
        raise ConfigurationError(f"There are no agents in {directory}.")
    for agent in agents.values():
        if len(set(agent.tools)) < len(agent.tools):
            raise ConfigurationError(f"Agent {agent.name!r} names a tool twice.")
        if missing := [name for name in agent.tools if name not in tools]:
            raise ConfigurationError(f"Agent {agent.name!r} names tools that do not exist: {', '.join(missing)}.")
    return Catalog(agents, tools)


def _rows(directory: Path, kind: type[Row]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for row in (_row(path, kind) for path in sorted(directory.glob("*.yaml"))):
        if row.name in rows:
            raise ConfigurationError(f"Two files in {directory.name} have the name {row.name!r}.")
        rows[row.name] = row
    return rows


def _row(path: Path, kind: type[Row]) -> Row:
    try:
        return kind.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise ConfigurationError(f"{path.parent.name}/{path.name} is not right: {problems(error)}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path.parent.name}/{path.name} is not right: {error}") from error
