"""Rows of the catalog, which are agents and tools in one version each, and what makes them fit together."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple, Self

from stepagent.agents import AgentSpec
from stepagent.schemas import schema_flaw
from stepagent.tool_specs import READ_RESULT, ToolSpec

RowKind = Literal["agent", "tool"]
Spec = AgentSpec | ToolSpec
SPECS: dict[RowKind, type[AgentSpec] | type[ToolSpec]] = {"agent": AgentSpec, "tool": ToolSpec}

MAX_ROW_BYTES = 100_000  # a run keeps copies of the rows that it began with, and reads them every turn
_SHOWN_CHARS = 80  # of a name, which a client may have made up


class RowKey(NamedTuple):
    """Which row. Agents and tools have names of their own, so that an agent and a tool may share one."""

    kind: RowKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name[:_SHOWN_CHARS]!r}"


class Row(NamedTuple):
    """One version of an agent or a tool, by whom and when. `spec` is None where the row was deleted.

    `origin` is who changed it last: a deployed file, or somebody live. `file_digest` is what its file said when that
    was last loaded, "" for rows without a file.
    """

    key: RowKey
    version: int
    spec: Spec | None
    origin: Literal["file", "live"]
    changed_by: str
    changed_at: datetime
    file_digest: str = ""


class Catalog(NamedTuple):
    """Agents and tools by name."""

    agents: dict[str, AgentSpec]
    tools: dict[str, ToolSpec]

    @classmethod
    def of(cls, specs: Iterable[Spec | None]) -> Self:
        """The catalog of these; what was deleted is not in it."""
        known = list(specs)
        return cls(
            {spec.name: spec for spec in known if isinstance(spec, AgentSpec)},
            {spec.name: spec for spec in known if isinstance(spec, ToolSpec)},
        )

    def tools_of(self, agent: AgentSpec) -> tuple[ToolSpec, ...]:
        """Its tools as it has them: renamed, described otherwise, with arguments bound.

        Raises:
            KeyError: the catalog lacks one of them.
        """
        own = tuple(use.apply(self.tools[use.tool]) for use in agent.tools)
        reading = self.tools.get(READ_RESULT)
        return own if reading is None or READ_RESULT in {tool.name for tool in own} else (*own, reading)


class Flaw(NamedTuple):
    """What is wrong with one field of a row; the message is half a sentence."""

    field: str
    message: str


def key_of(spec: Spec) -> RowKey:
    return RowKey("agent" if isinstance(spec, AgentSpec) else "tool", spec.name)


def body_of(spec: Spec) -> str:
    """A row as JSON text, as its author wrote it: what is left to defaults follows them when they change."""
    return spec.model_dump_json(exclude_unset=True)


def flaws(spec: Spec, catalog: Catalog, models: Collection[str]) -> Iterator[Flaw]:
    """What is wrong with a row that is well formed: its size, or what it names and the catalog does not have."""
    if (size := len(body_of(spec).encode())) > MAX_ROW_BYTES:
        yield Flaw("", f"has {size} bytes; at most {MAX_ROW_BYTES} are taken")
    if isinstance(spec, AgentSpec):
        yield from _flaws_of_agent(spec, catalog, models)
    else:
        yield from _flaws_of_tool(spec, catalog)


def users_of(key: RowKey, catalog: Catalog) -> list[RowKey]:
    """The rows that need this one: agents that have a tool, tools that ask an agent."""
    if key.kind == "tool":
        agents = [agent for agent in catalog.agents.values() if key.name in {use.tool for use in agent.tools}]
        return [key_of(agent) for agent in agents]
    return [key_of(tool) for tool in catalog.tools.values() if tool.kind == "agent" and tool.target == key.name]


def _flaws_of_agent(agent: AgentSpec, catalog: Catalog, models: Collection[str]) -> Iterator[Flaw]:
    for index, use in enumerate(agent.tools):
        if use.tool not in catalog.tools:
            yield Flaw(f"tools.{index}", f"there is no tool {use.tool!r}")
    if agent.answer_form and (flaw := agent.answer_form.flaw):
        yield Flaw("answer_form.json_schema", flaw)
    if agent.model not in models:
        yield Flaw("model", f"models.yaml has no model {agent.model!r}, it has {', '.join(models)}")


def _flaws_of_tool(tool: ToolSpec, catalog: Catalog) -> Iterator[Flaw]:
    if tool.kind == "agent" and tool.target not in catalog.agents:
        yield Flaw("target", f"there is no agent {tool.target!r}")
    if flaw := schema_flaw(tool.parameters):
        yield Flaw(".".join(("parameters", *flaw.path)), f"not a JSON Schema: {flaw.message}")
